"""Requests to the workflow. The command line parses these classes: a field is an option with its default and help."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from pipelines.storage.option import DEFAULT_STORAGE, parse_folder, parse_storage
from proser_core.config import Recipe
from proser_core.data.splits.families import trial_seed
from proser_core.errors import ConfigError
from tune_spaces import check_name, folder_of

MAX_HOURS, MAX_SAMPLES = 100_000, 10_000  # beyond which a number is a mistake
MAX_SPLITS = 1_000  # of one range: each is a training or more
UNNAMED = tyro.conf.arg(name="")  # the fields of such a field are options without a prefix


def parse_indices(text: str) -> tuple[int, ...]:
    """Class splits from "0-4" or "0,2,5-7". Raises ConfigError for anything else."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first or last - first >= MAX_SPLITS:
            raise ConfigError(
                f"--split-indices got {text!r}; need numbers and ranges of at most {MAX_SPLITS:,}, such as 0-4 or 0,2,5"
            )
        found += range(first, last + 1)
    return tuple(dict.fromkeys(found))


def _read_by(read: Callable[[str], Any], kind: Any, metavar: str) -> PrimitiveConstructorSpec[Any]:
    """Parse one word of the command line into a value of `kind`."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: read(words[0]),
        is_instance=lambda value: isinstance(value, kind),
        str_from_instance=lambda value: [",".join(map(str, value)) if isinstance(value, tuple) else str(value)],
    )


DataDir = Annotated[
    Path | None,
    tyro.conf.arg(
        help="Directory of the data sets: Parquet as on the Hugging Face Hub (DIR/cifar100/*.parquet), torchvision's "
        "own folders, or for `folder` your own images (DIR/CLASS/*, or DIR/train/CLASS/* next to val/ and test/)."
    ),
]
StoragePlace = Annotated[
    Path | str,
    _read_by(parse_storage, Path | str, "FOLDER|URI"),
    tyro.conf.arg(
        help="Folder, or URI such as s3://bucket/prefix, for prepared data, weights, logits and figures. All machines "
        "must see it."
    ),
]
StorageFolder = Annotated[Path, _read_by(parse_folder, Path, "FOLDER")]
SplitIndices = Annotated[tuple[int, ...], _read_by(parse_indices, tuple, "I-J,K")]
ClusterFile = Annotated[
    Path | None,
    tyro.conf.arg(
        help="YAML file that launched an autoscaling cluster: it says how far the cluster can grow. Not needed on the "
        "head node of `ray up`."
    ),
]
ModelName = Annotated[str, tyro.conf.arg(help="Registered model; by default `proser`, or the only registered one.")]


@dataclass(frozen=True)
class RunRequest:
    """Run a recipe through every stage. Stages that are finished and unchanged are skipped."""

    recipe: Annotated[Recipe, UNNAMED]
    data_dir: DataDir = None
    storage: StoragePlace = DEFAULT_STORAGE
    pretrained: Path | None = None
    """Your own closed-set checkpoint (safetensors or a state_dict), instead of pretraining."""
    cluster_file: ClusterFile = None
    dry_run: bool = False
    """Print the plan with its estimated time, and stop."""
    draw: Path | None = None
    """Write the graph of the stages to this file (.svg, .png, .pdf or .dot), and stop."""


@dataclass(frozen=True, kw_only=True)
class SweptRecipe(Recipe):
    """The options of a recipe that a sweep heeds: it takes the spaces that are named to it, and registers no model."""

    space: tyro.conf.Suppress[str] = ""
    model_name: tyro.conf.Suppress[str] = Recipe.model_name


@dataclass(frozen=True)
class SweepRequest:
    """Train every point of one or more search spaces on one or more class splits. Finished trainings are skipped: the
    same command resumes a sweep that was stopped."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="", constructor=SweptRecipe)]
    spaces: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="SPACE [SPACE ...]")] = ()
    """Search spaces by name (see `proser list`), or files such as ./space.py."""
    split_indices: SplitIndices = ()
    """Class splits, such as 0-4 or 0,2,5; by default the recipe's own data.split-index."""
    data_dir: DataDir = None
    storage: StoragePlace = DEFAULT_STORAGE
    cluster_file: ClusterFile = None
    num_samples: int = 32
    """Points to draw from each search space with random draws. Those that fall behind are stopped early."""
    max_hours: float = 0.0
    """Budget for fine-tuning in hours; 0 is no limit. The same command, given again, continues with a new budget."""
    resume: bool = False
    """Refuse to start a new sweep: only continue one whose pretraining, or a point of it after that, has begun in this
    storage."""
    dry_run: bool = False
    """Print the plan with its estimated time, and stop."""

    def __post_init__(self) -> None:
        folders: dict[str, str] = {}
        for space in self.spaces:
            check_name(space)
            other = folders.setdefault(folder_of(space), space)
            if other != space:
                raise ConfigError(
                    f"the figures of the search spaces {other} and {space} would be in one folder, {folder_of(space)}; "
                    "give one of the two, or rename its file"
                )
        if not 0 <= self.max_hours <= MAX_HOURS:
            raise ConfigError(f"--max-hours is {self.max_hours:g}; need hours up to {MAX_HOURS:,}, 0 for no limit")
        if not 1 <= self.num_samples <= MAX_SAMPLES:
            raise ConfigError(f"--num-samples is {self.num_samples}; need 1 to {MAX_SAMPLES:,} points of a search")

    @property
    def splits(self) -> tuple[int, ...]:
        """The class splits to train on."""
        return self.split_indices or (self.recipe.data.split_index,)

    @property
    def recipes(self) -> list[Recipe]:
        """The recipe on each class split; where several are asked for, no two are the same training."""
        recipe = self.recipe
        if not self.split_indices:
            return [recipe]
        data = [replace(recipe.data, split_index=index) for index in self.split_indices]
        return [replace(recipe, data=each, seed=trial_seed(each, recipe.seed)) for each in data]

    @property
    def title(self) -> str:
        """The sweep in a few words."""
        return f"{self.recipe.name}, {' + '.join(self.spaces)}"


@dataclass(frozen=True)
class JobRequest:
    """Write a recipe's trainings (its control, its own fine-tune, its search space) to a file, for a machine that has
    only torch and the folder proser_core. Edit the file if the data set lies elsewhere on that machine."""

    recipe: Annotated[Recipe, UNNAMED]
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("JOB.json")
    """Output file."""
    data_dir: DataDir = None
    with_task: bool = False
    """Prepare the images here and write them next to the file, for a machine without the data set."""
    storage: Annotated[StorageFolder, tyro.conf.arg(help="With --with-task: folder of the prepared images.")] = (
        DEFAULT_STORAGE
    )

    def __post_init__(self) -> None:
        if self.storage != DEFAULT_STORAGE and not self.with_task:
            raise ConfigError(
                f"--storage {self.storage} is for the images that --with-task prepares; give --with-task too, or omit "
                "it"
            )


@dataclass(frozen=True)
class PromoteRequest:
    """Make a version the champion, unless it is worse than the present one. Paired intervals compare macro-F1,
    AUROC and closed-set accuracy on the same validation images and development unknowns; the known rate must not
    be shown to be below its target. Exit code 1: the version was refused. Every decision is a run in MLflow."""

    model_name: str = ""
    """Registered model; by default `proser`, or the only registered one; with --best-of that of the sweep's recipe."""
    version: str = ""
    """Version to promote; by default the one with the alias `candidate`."""
    alias: str = "champion"
    """Alias to give to the version."""
    tolerance: float = 0.02
    """Largest loss in a metric that is tolerated, as a fraction (0.02: 2 points). The lower end of each 95 % interval
    must not be below minus this."""
    force: bool = False
    """Promote even a worse version, or one that cannot be compared; the decision is recorded as forced."""
    best_of: str = ""
    """Name or id of a sweep's run: register its best trial on development data, and promote that version."""
    ensemble: int = 1
    """With --best-of: how many of the best trials, up to 10, to register as one model, the mean of their logits. Each
    prediction then takes as many forward passes."""
    split_index: int | None = None
    """With --best-of: class split of the trial; by default the sweep's first."""
    storage: Annotated[StoragePlace, tyro.conf.arg(help="With --best-of: storage of that sweep.")] = DEFAULT_STORAGE
