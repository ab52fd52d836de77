"""`proser reproduce NAME ...`: the tables and figures of the paper."""

import itertools
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from pipelines.commands.parsing import parse, parse_with_schedule, show_names
from pipelines.console import console
from pipelines.recipes import RECIPES, schedule
from pipelines.reproduction.protocols import FIGURES, headlines
from pipelines.storage.argument import DEFAULT_STORAGE
from pipelines.workflow.requests import UNNAMED, ClusterFile, DataDir, SplitIndices, Storage
from proser_core.config import (
    CalibrationConfig,
    ClusterConfig,
    FinetuneConfig,
    NetworkConfig,
    Precision,
    PretrainConfig,
    Recipe,
)
from proser_core.errors import ConfigError
from proser_core.naming import unknown_name


@dataclass(frozen=True)
class ReproduceArguments:
    """Measure tables of the paper again, next to the published numbers: one row per method, one column per data set.
    Finished trainings are skipped: the same command resumes where it was stopped."""

    split_family: str = ""
    """Published class lists (see `proser list`), or `permuted` for our own; by default the protocol's."""
    split_indices: SplitIndices = ()
    """Class splits, such as 0-4 or 0,2; by default the protocol's."""
    methods: tuple[str, ...] = ()
    """Methods by name (see `proser list`); by default all."""
    image_size: int = 0
    """Height and width in pixels of every image after resizing; 0 is the protocol's."""
    data_dir: DataDir = None
    storage: Storage = DEFAULT_STORAGE
    cluster_file: ClusterFile = None
    dry_run: bool = False
    """Print the plan with its estimated time, and stop."""
    jobs: Path | None = None
    """Train nothing: write the trainings of each class split to JOBS/*/JOB.json, for a machine without Ray."""
    with_task: bool = False
    """With --jobs: prepare the images here and write them next to each file, for a machine without the data set."""
    import_from: tuple[Path, ...] = ()
    """Train nothing: import the folders OUT of `python -m proser_core.job JOB.json OUT`."""
    download: bool = False
    """Let torchvision download a data set that `--data-dir` does not hold."""
    seed: int = 0
    """Seed of the validation draw, initial weights, batch order, augmentation and mixing."""
    precision: Precision = "auto"
    """Arithmetic of training: bf16 autocast or fp32; auto is bf16 on GPUs and where the CPU has it."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    pretrain: PretrainConfig = field(default_factory=PretrainConfig)
    finetune: FinetuneConfig = field(default_factory=FinetuneConfig)
    """Fine-tuning that every method starts from; most change other fields of it."""
    calibration: CalibrationConfig = field(default_factory=CalibrationConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)

    def recipe(self) -> Recipe:
        """Everything that decides a result except the images, which are the protocol's."""
        blocks = ("seed", "precision", "network", "pretrain", "finetune", "calibration", "cluster")
        return Recipe(name="reproduce", space="", **{name: getattr(self, name) for name in blocks})


@dataclass(frozen=True)
class FiguresArguments:
    """Draw the figures of the paper, from trainings on MNIST in a 2-d embedding (docs/paper-figures.md)."""

    recipe: Annotated[Recipe, UNNAMED] = field(default_factory=RECIPES["figures-mnist"])
    data_dir: Annotated[
        DataDir, tyro.conf.arg(help="Directory of MNIST, and of the outlier sets to draw examples from.")
    ] = None
    storage: Storage = DEFAULT_STORAGE
    cluster_file: ClusterFile = None


def main(arguments: list[str]) -> int:
    """Reproduce tables, or draw the figures."""
    typed = list(itertools.takewhile(lambda word: not word.startswith("-"), arguments))
    names, options = tuple(dict.fromkeys(typed)), arguments[len(typed) :]
    if not names:
        show_names("reproduce NAME", " [NAME ...] [options]", "Protocols", headlines(), arguments)
    for name in names:
        if name not in headlines():
            raise ConfigError(unknown_name("protocol", name, headlines()))
    command = shlex.join(["proser", "reproduce", *arguments])
    return _figures(names, options, command) if FIGURES in names else _tables(names, options, command)


def _tables(names: tuple[str, ...], options: list[str], command: str) -> int:
    request = parse_with_schedule(
        lambda name: ReproduceArguments(pretrain=schedule(name)), f"reproduce {' '.join(names)}", options, "long"
    )
    from pipelines.reproduction.reproducing import reproduce  # these load torch
    from pipelines.reproduction.request import ReproduceRequest

    return reproduce(
        ReproduceRequest(
            names,
            request.recipe(),
            request.data_dir,
            request.storage,
            family=request.split_family,
            split_indices=request.split_indices,
            methods=request.methods,
            image_size=request.image_size,
            download=request.download,
            cluster_file=request.cluster_file,
            dry_run=request.dry_run,
            jobs=request.jobs,
            with_task=request.with_task,
            import_from=request.import_from,
            command=command,
        ),
        console(),
    )


def _figures(names: tuple[str, ...], options: list[str], command: str) -> int:
    if len(names) > 1:
        others = " ".join(name for name in names if name != FIGURES)
        raise ConfigError(f"{FIGURES} has options of its own; give `proser reproduce {others}` as another command")
    request = parse(FiguresArguments, f"reproduce {FIGURES}", options)
    from pipelines.reproduction.figures import reproduce_figures  # it loads hamilton

    return reproduce_figures(
        request.recipe, request.data_dir, request.storage, console(), request.cluster_file, command
    )
