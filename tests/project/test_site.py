"""The documentation as a site: links lead somewhere, public names are there, nothing comes over the network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import proser_core

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with every broken link, missing anchor and forgotten page as an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_public_name_of_the_library_is_documented(site: Path) -> None:
    page = (site / "library.html").read_text()
    assert [name for name in proser_core.__all__ if f'id="proser_core.{name}"' not in page] == []


def test_no_page_loads_anything_over_the_network(site: Path) -> None:
    files = [path for kind in ("html", "css") for path in site.rglob(f"*.{kind}")]
    loads = re.compile(r"""<(?:script|link|img)[^>]+(?:src|href)=["'](?:https?:)?//|url\(["']?(?:https?:)?//|@import""")
    assert {path.name: found for path in files if (found := loads.findall(path.read_text()))} == {}
    assert len(files) > 10
