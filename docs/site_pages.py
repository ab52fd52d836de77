"""Hooks of mkdocs: files outside docs/ that pages link to become part of the site, and the theme's scripts run."""

import re
from pathlib import Path

from markdown.extensions.toc import slugify
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
# The scripts of the theme look for the style sheets of highlight.js, without which the choice of colours does nothing.
STAND_INS = '<style id="hljs-light"></style><style id="hljs-dark"></style>'


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let no heading have an id that begins with a digit: at one, the theme's script for tables and keys ends."""
    config.mdx_configs["toc"]["slugify"] = lambda heading, separator: _letter_first(slugify(heading, separator))
    return config


def _letter_first(anchor: str) -> str:
    return re.sub(r"^(?=\d)", "n", anchor)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add them beside the pages of docs/, and let their links into docs/ lead there."""
    root = Path(config.config_file_path).parent
    for path in (path for pattern in OUTSIDE for path in root.glob(pattern)):
        text = path.read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, str(path.relative_to(root)), content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links of docs/ that leave it lead to them, from pages in folders of docs/ too; links know those ids."""
    inside = "../" * page.file.src_uri.count("/")
    markdown = markdown.replace(f"](../{inside}", f"]({inside}")
    return re.sub(r"(\]\((?!https?:)[^)\s]*#)([^)\s]+)", lambda link: link[1] + _letter_first(link[2]), markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Add what the theme's scripts look for."""
    return output.replace("</head>", f"{STAND_INS}</head>", 1)
