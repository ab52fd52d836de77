"""Hook of mkdocs: the files outside docs/ that pages link to become part of the site."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

OUTSIDE = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "CITATION.cff",
    "LICENSE",
    "benchmarks/*.md",
    "ray_cluster.yaml",
    "clusters/*",
    "examples/*.py",
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add them beside the pages of docs/, and let their links into docs/ lead there."""
    root = Path(config.config_file_path).parent
    for path in (path for pattern in OUTSIDE for path in root.glob(pattern)):
        text = path.read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, str(path.relative_to(root)), content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links of docs/ that leave it lead to them, from pages in folders of docs/ too."""
    inside = "../" * page.file.src_uri.count("/")
    return markdown.replace(f"](../{inside}", f"]({inside}")
