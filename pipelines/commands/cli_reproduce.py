"""`proser reproduce`: the tables and figures of the paper on the command line."""

import itertools
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from pipelines.console import console
from pipelines.recipes import RECIPES, schedule, schedule_named
from pipelines.reproduction.protocols import FIGURES, headlines
from pipelines.storage.open import DEFAULT_STORAGE, parse_storage
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
    """Make tables of the paper again, beside what was published: a row a method, a column a data set. What is finished
    is skipped, and the same command again goes on where it was stopped."""

    split_family: str = ""
    """Published class lists (see `proser list`), or `permuted` for our own; without it, the protocol's."""
    split_indices: str = ""
    """Class splits, such as 0-4 or 0,2; without it, the protocol's."""
    methods: tuple[str, ...] = ()
    """Methods by name (see `proser list`); without it, all."""
    image_size: int = 0
    """Height and width in pixels that every image is brought to; 0 is the protocol's."""
    data_dir: Path | None = None
    """Directory with the data sets."""
    storage: str = str(DEFAULT_STORAGE)
    """Directory, or URI such as s3://bucket/prefix, for prepared data, weights, logits and reports; all machines
    must see it."""
    pretraining: str = "long"
    """Pretraining schedule: short, long, strong or fast (see `proser list`). It fills every --pretrain field; those
    given beside it come on top."""
    cluster_file: Path | None = None
    """File that launched an autoscaling cluster, for what it can grow to; on the head node of `ray up` it is found."""
    dry_run: bool = False
    """Print the plan, with the time that it takes, and stop."""
    jobs: Path | None = None
    """Train nothing; write the trainings of each class split to JOBS/*/JOB.json, for a machine that has only torch and
    the folder proser_core."""
    with_task: bool = False
    """With --jobs: prepare the images here and write them beside each file, so that no data set is needed there."""
    import_from: tuple[Path, ...] = ()
    """Train nothing; take what `python -m proser_core.job JOB.json OUT` left in these folders."""
    download: bool = False
    """Let torchvision download a data set that `--data-dir` does not hold."""
    seed: int = 0
    """Seed of the validation draw, initial weights, batch order, augmentation and mixing."""
    precision: Precision = "auto"
    """Arithmetic of training: bf16 autocast or fp32; auto is bf16 on GPUs and where the CPU has it."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    pretrain: PretrainConfig = field(default_factory=PretrainConfig)
    finetune: FinetuneConfig = field(default_factory=FinetuneConfig)
    """What every method's own fine-tune begins from; most change other fields of it."""
    calibration: CalibrationConfig = field(default_factory=CalibrationConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)

    def recipe(self) -> Recipe:
        """All that decides a result but the images, which are the protocol's."""
        blocks = ("seed", "precision", "network", "pretrain", "finetune", "calibration", "cluster")
        return Recipe(name="reproduce", space="", **{name: getattr(self, name) for name in blocks})


@dataclass(frozen=True)
class FiguresArguments:
    """Draw the figures of the paper, from trainings on MNIST in a 2-d embedding (docs/paper-figures.md)."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="")] = field(default_factory=RECIPES["figures-mnist"])
    data_dir: Path | None = None
    """Directory with MNIST, and with the outlier sets of which examples are drawn."""
    storage: str = str(DEFAULT_STORAGE)
    """Directory, or URI such as s3://bucket/prefix, for prepared data, weights, logits and figures."""
    cluster_file: Path | None = None
    """File that launched an autoscaling cluster, for what it can grow to; on the head node of `ray up` it is found."""


def reproduce_command(arguments: list[str]) -> int:
    """`proser reproduce NAME ...`."""
    typed = list(itertools.takewhile(lambda word: not word.startswith("-"), arguments))
    names, options = tuple(dict.fromkeys(typed)), arguments[len(typed) :]
    if not names:
        return _ask_for_protocol(arguments)
    for name in names:
        if name not in headlines():
            raise ConfigError(unknown_name("protocol", name, headlines()))
    if FIGURES in names:
        return _figures(names, options, shlex.join(["proser", "reproduce", *arguments]))
    default = ReproduceArguments(pretrain=schedule(schedule_named(options) or "long"))
    parsed = tyro.cli(ReproduceArguments, prog=f"proser reproduce {' '.join(names)}", default=default, args=options)
    from pipelines.reproduction.reproducing import reproduce
    from pipelines.reproduction.request import ReproduceRequest
    from pipelines.workflow.sweeping import parse_indices

    request = ReproduceRequest(
        names,
        parsed.recipe(),
        parsed.data_dir,
        parse_storage(parsed.storage),
        family=parsed.split_family,
        split_indices=parse_indices(parsed.split_indices) if parsed.split_indices else (),
        methods=parsed.methods,
        image_size=parsed.image_size,
        download=parsed.download,
        cluster_file=parsed.cluster_file,
        dry_run=parsed.dry_run,
        jobs=parsed.jobs,
        with_task=parsed.with_task,
        import_from=parsed.import_from,
        command=shlex.join(["proser", "reproduce", *arguments]),
    )
    return reproduce(request, console())


def _figures(names: tuple[str, ...], options: list[str], command: str) -> int:
    if len(names) > 1:
        others = " ".join(name for name in names if name != FIGURES)
        raise ConfigError(f"{FIGURES} has options of its own; give `proser reproduce {others}` as another command")
    parsed = tyro.cli(FiguresArguments, prog=f"proser reproduce {FIGURES}", args=options)
    from pipelines.reproduction.figures import reproduce_figures

    return reproduce_figures(
        parsed.recipe, parsed.data_dir, parse_storage(parsed.storage), console(), parsed.cluster_file, command
    )


def _ask_for_protocol(arguments: list[str]) -> int:
    lines = "\n".join(f"  {name:<18} {headline}" for name, headline in headlines().items())
    print(f"usage: proser reproduce NAME [NAME ...] [options]\n\nProtocols:\n{lines}\n")
    print("`proser reproduce NAME --help` explains every field.")
    return 0 if arguments in (["--help"], ["-h"]) else 2
