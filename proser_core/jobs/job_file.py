"""JOB.json: the trainings of a recipe as one file, for a machine that has the core alone.

    {"recipe": {...}, "finetunes": [{...}, ...], "task": "FOLDER" or "data_dir": "FOLDER", "code": {...},
     "own_methods": ["CROSR", ...], "own_schedule": "quick"}

`recipe` has the fields of a Recipe, all or some. Each fine-tune has fields of FinetuneConfig over
the recipe's own; {"objective": "cross_entropy"} is the control. `task` is the folder of a prepared task,
`data_dir` one with data sets. These and `recipe.network.weights_file` begin at the file's own folder
where they are relative. `own_methods` are methods with networks of their own, trained by `own_schedule`.
Weights are written beside the file, under a name from their content, so that they travel with it: with
what `proser job` writes, and with the runner's OUT.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from proser_core.baselines import METHODS
from proser_core.config import FinetuneConfig, NetworkConfig, Recipe, decisive_network, from_json, to_json
from proser_core.config.named_finetunes import control
from proser_core.config.own_networks import ScheduleName
from proser_core.digests import sha256_of
from proser_core.errors import CheckpointError, ConfigError
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.jobs.own_networks.methods import NO_METHODS, OwnMethods
from proser_core.jobs.own_networks.plans import check_servable, network_code, network_modules
from proser_core.jobs.preparing import PREPARING
from proser_core.jobs.trials import WORKER, check_recipe, control_of
from proser_core.naming import unknown_name
from proser_core.networks.pretrained import with_pretrained
from proser_core.store.code_version import code_version, source_digests
from proser_core.store.files import atomic_path, flush, read_json, write_json

FIELDS = ("recipe", "finetunes", "task", "data_dir", "code", "own_methods", "own_schedule")


@dataclass(frozen=True)
class CodeVersions:
    """Code versions that stand in the keys of prepared tasks, of trainings and, by name, of networks of methods' own,
    and the files they came from."""

    prepare: str
    train: str
    sources: dict[str, str]
    own: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def current(cls, own_methods: OwnMethods = NO_METHODS) -> "CodeVersions":
        """The versions of the code that is running; those of networks of methods' own only where there are such
        methods."""
        networks = OWN_NETWORKS if own_methods.names else {}
        modules = {module for network in networks.values() for module in network_modules(network)}
        sources = source_digests(PREPARING, WORKER, *modules)
        own = {name: tuple(network_code(network)) for name, network in networks.items()}
        return cls(code_version(PREPARING), code_version(WORKER), sources, own)

    def has_keys_of(self, other: "CodeVersions") -> bool:
        """Whether both lead to the same keys; those of networks that this one does not name are the other's."""
        return (self.prepare, self.train) == (other.prepare, other.train) and self.own in ({}, other.own)


@dataclass(frozen=True)
class JobFile:
    """What JOB.json says, with its paths resolved."""

    recipe: Recipe
    finetunes: tuple[FinetuneConfig, ...]
    task: Path | None
    data_dir: Path | None
    code: CodeVersions
    own_methods: OwnMethods = NO_METHODS

    @property
    def finetune_epochs(self) -> int:
        """Epochs of all fine-tunes; equal ones are trained once."""
        return sum(tuned.epochs for tuned in dict.fromkeys(self.finetunes))

    def save(self, path: Path) -> str:
        """Write it; a fine-tune as the fields in which it differs from the recipe's own.

        The weights file is copied beside it; its name there, or an empty string.
        """
        folders = {"task": self.task, "data_dir": self.data_dir}
        weights = copy_weights(self.recipe.network, path.parent)
        recipe = to_json(self.recipe)
        recipe["network"]["weights_file"] = weights
        values = {
            "recipe": recipe,
            "finetunes": [_changed_fields(self.recipe, tuned) for tuned in self.finetunes],
            **{name: str(folder) for name, folder in folders.items() if folder is not None},
            "code": vars(self.code),
        }
        if self.own_methods.names:
            values |= {"own_methods": list(self.own_methods.names), "own_schedule": self.own_methods.schedule}
        write_json(path, values)
        return weights


def _changed_fields(recipe: Recipe, tuned: FinetuneConfig) -> dict[str, Any]:
    is_control = tuned.objective == "cross_entropy"
    base = to_json((control_of(recipe) if is_control else recipe).finetune)
    changed = {name: value for name, value in to_json(tuned).items() if value != base[name]}
    return {"objective": tuned.objective, **changed} if is_control else changed


def read_job_file(path: Path) -> JobFile:
    """Read and check a JOB.json.

    Raises ConfigError for whatever does not fit, by the name of its field, and CheckpointError for
    weights that do not fit the network.
    """
    values = _object(path)
    unknown = sorted(set(values) - {*FIELDS})
    if unknown:
        raise ConfigError(f"{path}: {unknown_name('field', unknown[0], FIELDS)}")
    try:
        recipe = with_pretrained(_with_weights(path, from_json(Recipe, values.get("recipe", {}), "recipe")))
        check_recipe(recipe)
        finetunes = _finetunes(recipe, values.get("finetunes", []))
        own_methods = _own_methods(recipe, values)
        code = CodeVersions.current(own_methods)
        if "code" in values:
            code = _same_sources(from_json(CodeVersions, values["code"], "code"), code)
        task, data_dir = (_place(path, values.get(name), name) for name in ("task", "data_dir"))
    except (ConfigError, CheckpointError) as error:
        raise type(error)(f"{path}: {error}") from error
    if task is not None and data_dir is not None:
        raise ConfigError(f"{path}: it has both task and data_dir; omit one of them")
    return JobFile(recipe, finetunes, task, data_dir, code, own_methods)


def _object(path: Path) -> dict[str, Any]:
    try:
        values = read_json(path)
    except FileNotFoundError:
        raise ConfigError(
            f"{path} does not exist; `proser job` writes such a file, and the runner leaves it in OUT"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not a readable JSON file ({error}); write it with `proser job`") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds a {type(values).__name__}; need an object with a recipe and finetunes")
    return values


def _finetunes(recipe: Recipe, values: Any) -> tuple[FinetuneConfig, ...]:
    if not isinstance(values, list):
        raise ConfigError(f"finetunes is {values!r}; need a list of objects")
    made = []
    for number, entry in enumerate(values):
        try:
            tuned = from_json(FinetuneConfig, entry, "finetune", base=recipe.finetune)
        except ConfigError as error:
            raise ConfigError(f"finetunes[{number}]: {error}") from error
        made.append(control(tuned) if tuned.objective == "cross_entropy" else tuned)
    check_finetunes(recipe, made)
    return tuple(made)


def check_finetunes(recipe: Recipe, finetunes: Iterable[FinetuneConfig]) -> None:
    """Raises ConfigError for a fine-tune that the recipe cannot have, before a pretraining for it."""
    for number, tuned in enumerate(finetunes):
        try:
            replace(recipe, finetune=tuned)
        except ConfigError as error:
            raise ConfigError(f"finetunes[{number}]: {error}") from error


def _own_methods(recipe: Recipe, values: dict[str, Any]) -> OwnMethods:
    """Methods with networks of their own, and the schedule of these."""
    names, schedule = values.get("own_methods", []), values.get("own_schedule", "quick")
    if not isinstance(names, list):
        raise ConfigError(f"own_methods is {names!r}; need a list of names")
    with_networks = [name for name, method in METHODS.items() if method.network]
    for name in names:
        if name not in with_networks:
            raise ConfigError(
                f"own_methods: {unknown_name('method with a network of its own', str(name), with_networks)}"
            )
        check_servable(OWN_NETWORKS[METHODS[name].network], recipe)
    if schedule not in get_args(ScheduleName):
        raise ConfigError(unknown_name("choice for own_schedule", str(schedule), get_args(ScheduleName)))
    return OwnMethods(tuple(names), schedule)


def _place(path: Path, value: Any, name: str) -> Path | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ConfigError(f"{name} is {value!r}; need the path of a folder")
    try:
        return (path.parent / Path(value).expanduser()).resolve()
    except (RuntimeError, ValueError) as error:  # no such user, or a byte that no path has
        raise ConfigError(f"{name} is {value!r}, which is not a path ({error}); need the path of a folder") from error


def _with_weights(path: Path, recipe: Recipe) -> Recipe:
    place = _place(path, recipe.network.weights_file or None, "recipe.network.weights_file")
    return replace(recipe, network=replace(recipe.network, weights_file=str(place))) if place else recipe


def _same_sources(recorded: CodeVersions, here: CodeVersions) -> CodeVersions:
    """The recorded versions. Raises ConfigError where they are of other code than that here.

    Versions of another Python differ though the code does not; then the files decide.
    """
    if recorded.has_keys_of(here):
        return recorded
    for name in sorted({*recorded.sources, *here.sources}):
        if recorded.sources.get(name) != here.sources.get(name):
            raise ConfigError(
                f"the source of {name} is not that of the proser that wrote the file; copy proser_core from there, "
                "import with that proser what is trained already, or write the file again with this code"
            )
    return recorded


def copy_weights(network: NetworkConfig, folder: Path) -> str:
    """Copy the network's weights file into `folder`, under a name from its content; without one, an empty string.

    Raises CheckpointError where it cannot be read or copied.
    """
    if not network.weights_file:
        return ""
    source, content = Path(network.weights_file), decisive_network(network)["weights_file"]
    target = folder / f"weights-{content[:16]}{source.suffix}"
    if not target.is_file() or sha256_of(target) != content:
        try:
            with atomic_path(target) as temporary:
                shutil.copyfile(source, temporary)
                flush(temporary)
        except OSError as error:
            raise CheckpointError(
                f"{source} could not be copied to {target} ({error}); free some space there, or choose another folder"
            ) from error
    return target.name
