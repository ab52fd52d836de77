"""What networks of methods' own say of themselves: facts and pictures, for a report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pipelines.reproduction.results import SplitResult
from proser_core.jobs.own_networks.plans import METHODS_FOLDER
from proser_core.jobs.own_networks.worker import FACTS, PICTURES
from proser_core.store.files import read_json

CELL = 0.6  # side of an image, inches
GAP = 2  # pixels between images


@dataclass(frozen=True)
class OwnNetworkOutcome:
    """A network on one class split of a study; `pictures` are uint8[rows, columns, H, W, 3] by title."""

    study: str
    network: str
    split_index: int
    facts: dict[str, Any]
    pictures: dict[str, np.ndarray]

    def in_words(self) -> str:
        """Its facts on one line."""
        facts = ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in self.facts.items())
        return f"{self.network}, class split {self.split_index}: {facts}"


def read_outcomes(results: Sequence[SplitResult], storage: Path) -> list[OwnNetworkOutcome]:
    """Each network of each class split once."""
    found = {(each.study, each.own["network"], each.split_index): each.own["key"] for each in results if each.own}
    return [OwnNetworkOutcome(*about, *_read(storage / METHODS_FOLDER / key)) for about, key in found.items()]


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if not (folder / PICTURES).is_file():
        return read_json(folder / FACTS), {}
    with np.load(folder / PICTURES) as pictures:
        return read_json(folder / FACTS), dict(pictures)


def picture_figures(outcomes: Sequence[OwnNetworkOutcome]) -> Iterator[tuple[str, str, Figure]]:
    """The pictures of each network, of its first class split, each after its study and a title for people."""
    first = {(each.study, each.network): each for each in reversed(outcomes)}
    for outcome in reversed(first.values()):
        for title, picture in outcome.pictures.items():
            yield outcome.study, f"{outcome.network}: {title}", side_by_side(picture)


def side_by_side(picture: np.ndarray) -> Figure:
    """Images uint8[rows, columns, H, W, 3] on a white ground, each in its own pixels."""
    rows, columns, height, width, _ = picture.shape
    ground = np.full((rows, columns, height + GAP, width + GAP, 3), 255, np.uint8)
    ground[:, :, :height, :width] = picture
    whole = ground.transpose(0, 2, 1, 3, 4).reshape(rows * (height + GAP), columns * (width + GAP), 3)
    figure = Figure(figsize=(CELL * columns, CELL * rows))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(whole, interpolation="nearest")
    axes.set_axis_off()
    return figure


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}: {_value(each)}" for name, each in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
