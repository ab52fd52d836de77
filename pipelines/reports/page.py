"""A page of sections with figures and tables, and how it was made: Markdown, or one HTML file that needs no network."""

import base64
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from proser_core.digests import sha256_of
from proser_core.recognition.result_tables import table_lines

HTML = "report.html"
THUMBNAIL = 96  # pixels


@dataclass(frozen=True)
class Made:
    """How the numbers came about: the command that makes them again, and facts by name; one is the `schedule`."""

    command: str
    facts: dict[str, str]


@dataclass(frozen=True)
class Section:
    """Figures and tables under one heading; `source` is where the paper has them, `points` are a list."""

    name: str
    headline: str
    source: str
    note: str = ""
    figures: Sequence[Mapping[str, str]] = ()
    columns: Sequence[Mapping[str, Any]] = ()
    points: Sequence[str] = ()


def anchor(name: str) -> str:
    """A name as part of a file name or a link."""
    return re.sub(r"[^\w.-]+", "-", name.replace("+", "-plus-")).strip("-")


def embedded(svg: Path, alt: str, folder: Path) -> dict[str, str]:
    """A figure that was written as SVG, for a page in `folder`; on a phone a wide one is scrolled, not shrunk."""
    found = re.search(r'width="([\d.]+)pt"', svg.read_text(encoding="utf-8"))
    assert found is not None
    inches = float(found[1]) / 72
    return {
        "svg": base64.b64encode(svg.read_bytes()).decode(),
        "alt": alt,
        "file": svg.relative_to(folder).as_posix(),
        "width": f"{1.3 * inches:.1f}",
        "least_width": f"{0.7 * inches:.1f}",
    }


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns but the first are of numbers."""
    return "\n".join([*table_lines(header, rows), ""])


def template_digests() -> list[str]:
    """Digests of the templates of `write_page`, which decide a page along with code and content."""
    return [sha256_of(Path(__file__).with_name(f"{name}.jinja")) for name in ("base.html", "report.html", "report.md")]


def thumbnail(pixels: np.ndarray) -> str:
    """uint8[H, W, 3] for the `src` of an image on a page: JPEG in Base64, THUMBNAIL pixels high and wide at most."""
    image, content = Image.fromarray(pixels), io.BytesIO()
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    image.save(content, "JPEG", quality=85)
    return base64.b64encode(content.getvalue()).decode()


def write_page(title: str, sections: Sequence[Section], made: Made, target: Path) -> None:
    """Render the template of the target's kind, `report.html.jinja` or `report.md.jinja`."""
    about = {"title": title, "sections": sections, "command": made.command, "facts": made.facts}
    target.write_text(render(f"report{target.suffix}.jinja", about), encoding="utf-8")


def render(template: str, about: Mapping[str, Any]) -> str:
    """A template of this folder with its values, which are escaped in HTML."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=".html." in template,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["anchor"] = anchor
    return environment.get_template(template).render(about)
