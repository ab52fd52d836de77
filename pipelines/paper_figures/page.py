"""The figures of the paper on one page, with what stands in them in words."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pipelines.reproduction.page import HTML, Made, Section, embedded, write_page

MARKDOWN = "results.md"
EXAMPLES = "outlier_examples_"
FIGURES = {
    "decision_boundaries": (
        "What each method decides at each place of a 2-d embedding; shares of all test images, in percent",
        "fig. Visualization on open-set recognition of MNIST",
    ),
    "novel_embeddings": (
        "Mixtures beside images of the unknown classes: vanilla mixup left, manifold mixup right",
        "fig. Visualization of generated novel instances and real distribution of novel instances",
    ),
    "beta_densities": (
        "Density of the mixing ratio for each alpha",
        "fig. Kernel density estimation of Beta distribution when alpha varies",
    ),
    "running_time": (
        "Seconds of training by method",
        "fig. Running time comparison for different methods on MNIST dataset",
    ),
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


def write_figures_page(points: Mapping[str, Sequence[str]], made: Made, folder: Path) -> None:
    """A section for each figure that lies in the folder; `points` are told below it, by the name of its file."""
    sections = []
    for name, (headline, source) in FIGURES.items():
        drawn = folder / f"{name}.svg"
        if drawn.is_file():
            figures = [embedded(drawn, headline)]
            title = name.replace("_", " ")
            sections.append(Section(title, headline, source, figures=figures, points=points.get(name, ())))
    for target in (HTML, MARKDOWN):
        write_page("figures of the paper, drawn again", sections, made, folder / target)
