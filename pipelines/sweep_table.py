"""Placeholder until the report is merged."""

from dataclasses import dataclass
from typing import Any

from proser_core.data.splits import ClassSplit


@dataclass(frozen=True)
class SweepTable:
    """X."""

    recipe: str
    spaces: tuple[str, ...]
    splits: dict[int, ClassSplit]
    rows: list[dict[str, Any]]
    controls: list[dict[str, Any]]
