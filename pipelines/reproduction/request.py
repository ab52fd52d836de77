"""Requests for the paper's tables and figures. The command line parses these classes: a field is an option with its
default and help."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from pipelines.recipes import RECIPES
from pipelines.reproduction.protocols import PROTOCOLS, Study
from pipelines.storage.option import DEFAULT_STORAGE
from pipelines.workflow.requests import UNNAMED, ClusterFile, DataDir, SplitIndices, StoragePlace
from proser_core.config import DataConfig, Recipe
from proser_core.config.own_networks import ScheduleName


@dataclass(frozen=True, kw_only=True)
class Settings(Recipe):
    """The options of a recipe, without those that the protocols decide."""

    name: tyro.conf.Suppress[str] = "reproduce"
    space: tyro.conf.Suppress[str] = ""
    stop_early: tyro.conf.Suppress[bool] = False
    data: tyro.conf.Suppress[DataConfig] = field(default_factory=DataConfig)


@dataclass(frozen=True)
class FiguresRequest:
    """Draw the figures of the paper, from trainings on MNIST in a 2-d embedding (docs/paper-figures.md)."""

    recipe: Annotated[Recipe, UNNAMED] = field(default_factory=RECIPES["figures-mnist"])
    data_dir: Annotated[
        DataDir, tyro.conf.arg(help="Directory of MNIST, and of the outlier sets to draw examples from.")
    ] = None
    storage: StoragePlace = DEFAULT_STORAGE
    cluster_file: ClusterFile = None


@dataclass(frozen=True)
class ReproduceRequest:
    """Measure tables of the paper again, next to the published numbers: one row per method, one column per data set.
    Finished trainings are skipped: the same command resumes where it was stopped. --finetune.* holds for every method,
    but for what defines one, which is refused here: objective, start, batch size, optimizer, momentum, learning rate,
    schedule, and whatever is about placeholders."""

    names: tyro.conf.Suppress[tuple[str, ...]]
    recipe: Annotated[Recipe, tyro.conf.arg(name="", constructor=Settings)]
    data_dir: DataDir = None
    storage: StoragePlace = DEFAULT_STORAGE
    split_family: str = ""
    """Published class lists (see `proser list`), or `permuted` for our own; by default the protocol's."""
    split_indices: SplitIndices = ()
    """Class splits, such as 0-4 or 0,2; by default the protocol's."""
    methods: tuple[str, ...] = ()
    """Methods by name (see `proser list`); by default all but those with networks of their own and those trained
    from scratch."""
    own_networks: Literal["", "quick", "full"] = ""
    """How to train the networks of methods such as CROSR or OSRCI: quick (for 2 CPU cores) or full (as published).
    Empty leaves such methods out, or is quick where --methods names one."""
    register: tuple[str, ...] = ()
    """Methods whose networks, of the first class split, become versions in the model registry, to be promoted and
    served; --model-name names the model."""
    image_size: int = 0
    """Height and width in pixels to which every image is resized; 0 is the protocol's."""
    download: bool = False
    """Let torchvision download a data set that --data-dir does not hold."""
    cluster_file: ClusterFile = None
    dry_run: bool = False
    """Print the plan with its estimated time, and stop."""
    jobs: Path | None = None
    """Train nothing: write the trainings of each class split to JOBS/*/JOB.json, for a machine without Ray."""
    with_task: bool = False
    """With --jobs: prepare the images here and write them next to each file, for a machine without the data set."""
    import_from: tuple[Path, ...] = ()
    """Train nothing: import the folders OUT of `python -m proser_core.job JOB.json OUT`."""
    command: tyro.conf.Suppress[str] = "proser reproduce"
    # as the user typed it, for the report

    @property
    def studies(self) -> list[str]:
        """Names of the studies that the protocols read, each once."""
        return list(dict.fromkeys(study for name in self.names for study in PROTOCOLS[name].studies))

    @property
    def schedule(self) -> ScheduleName:
        """Schedule by which networks of methods' own are trained."""
        return self.own_networks or "quick"

    def family_of(self, study: Study) -> str:
        """The class lists that a study takes."""
        return self.split_family or study.family
