"""The figures of the paper on one page, with what stands in them in words."""

import shutil
from pathlib import Path
from typing import Any

from pipelines.output_files import FIGURES, RESULTS, TABLES
from pipelines.reports.page import HTML, Made, Section, embedded, write_page
from proser_core.store.files import read_json
from proser_core.titles import duration, percent

NUMBERS = "figures.json"
EXAMPLES = "outlier_examples_"
CAPTIONS = {
    "decision_boundaries": (
        "Decisions of each method in a 2-d embedding; shares of all test images, in percent",
        "fig. Visualization on open-set recognition of MNIST",
    ),
    "novel_embeddings": (
        "Mixtures and images of the unknown classes: vanilla mixup left, manifold mixup right",
        "fig. Visualization of generated novel instances and real distribution of novel instances",
    ),
    "beta_densities": (
        "Density of the mixing ratio for each alpha",
        "fig. Kernel density estimation of Beta distribution when alpha varies",
    ),
    "running_time": ("Training time by method", "fig. Running time comparison for different methods on MNIST dataset"),
    f"{EXAMPLES}mnist": (
        "Images of MNIST and of its outlier sets",
        "fig. Dataset example of original MNIST, Omniglot, MNIST-noise and Noise",
    ),
    f"{EXAMPLES}cifar10": (
        "Images of CIFAR10 and of its outlier sets",
        "fig. Dataset example of CIFAR10 open-set recognition",
    ),
}
"""What each shows, and where the paper has it, by the name of its file."""


def write_figures_page(drawn: Path, command: str, folder: Path) -> None:
    """Write the pages, with one section per figure in `drawn` and its numbers, and copy every file."""
    numbers = read_json(drawn / NUMBERS)
    for place, pattern in ((TABLES, NUMBERS), (FIGURES, "*.png"), (FIGURES, "*.svg")):
        (folder / place).mkdir(parents=True, exist_ok=True)
        for path in drawn.glob(pattern):
            shutil.copyfile(path, folder / place / path.name)
    points, sections = _points(numbers), []
    for name, (headline, source) in CAPTIONS.items():
        svg = folder / FIGURES / f"{name}.svg"
        if svg.is_file():
            figures = [embedded(svg, headline, folder)]
            title = name.replace("_", " ")
            sections.append(Section(title, headline, source, figures=figures, points=points.get(name, [])))
    for target in (HTML, RESULTS):
        write_page("figures of the paper, reproduced", sections, Made(command, numbers["facts"]), folder / target)


def _points(numbers: dict[str, Any]) -> dict[str, list[str]]:
    """What stands in the figures, in words, by their names."""
    decided = []
    for method, shares in numbers["decision_boundaries"].items():
        novel = ", ".join(f"{name} rejected {percent(share)}" for name, share in shares["rejected"].items())
        decided.append(f"{method}: known kept {percent(shares['kept'])}, {novel}")
    return {
        "decision_boundaries": decided,
        "novel_embeddings": [
            f"{way} mixup: {percent(each['taken_as_known'])} % of its mixtures taken as known"
            for way, each in numbers["novel_embeddings"].items()
        ],
        "running_time": [f"{name}: {duration(each)}" for name, each in numbers["running_time"]["seconds"].items()],
        **{name: [f"{each}: {note}" for each, note in notes.items()] for name, notes in numbers["notes"].items()},
    }
