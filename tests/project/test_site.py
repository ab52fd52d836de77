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


def pages_of(site: Path) -> dict[Path, str]:
    """The text of each page but the theme's own of what is not found."""
    return {page: page.read_text() for page in site.rglob("*.html") if page.name != "404.html"}


def test_every_link_leads_to_a_file_of_the_site(site: Path) -> None:
    link = re.compile(r'(?:href|src)="([^"#:]+)(?:#[^"]*)?"')
    links = [(page, to) for page, text in pages_of(site).items() for to in link.findall(text)]
    assert [(page.name, to) for page, to in links if not (page.parent / to).exists()] == []
    assert links


def test_the_scripts_of_the_theme_find_what_they_look_for(site: Path) -> None:
    for page, text in pages_of(site).items():
        assert re.findall(r' id="\d[^"]*"', text) == [], f"{page.name}: no selector begins with a digit"
        assert set(re.findall(r'id="(hljs-\w+)"', text)) == {"hljs-light", "hljs-dark"}, page.name


def test_no_page_loads_anything_over_the_network(site: Path) -> None:
    files = [path for kind in ("html", "css") for path in site.rglob(f"*.{kind}")]
    loads = re.compile(r"""<(?:script|link|img)[^>]+(?:src|href)=["'](?:https?:)?//|url\(["']?(?:https?:)?//|@import""")
    assert {path.name: found for path in files if (found := loads.findall(path.read_text()))} == {}
    assert len(files) > 10
