"""What a reproduction is refused for, before any work."""

from dataclasses import dataclass

from rich.console import Console

from pipelines.console import say
from pipelines.recipes import schedule_note
from pipelines.reproduction.protocols import PROTOCOLS, STUDIES
from pipelines.reproduction.request import ReproduceRequest
from pipelines.reproduction.studies import ResolvedStudy, method_names, resolve
from pipelines.storage.open import DEFAULT_STORAGE
from pipelines.workflow.session import check_places, say_defects
from pipelines.workflow.training import TrainingInputs
from proser_core.baselines import METHODS
from proser_core.baselines.tables import finetunes_of_methods
from proser_core.config import CalibrationConfig, FinetuneConfig
from proser_core.config.named_finetunes import STATED
from proser_core.errors import ConfigError, ProserError
from proser_core.jobs.trials import check_recipe
from proser_core.naming import look_up


@dataclass(frozen=True)
class PreparedStudy(ResolvedStudy):
    """A study whose images are there, with the inputs of its trainings."""

    inputs: TrainingInputs


def check_carrying(request: ReproduceRequest) -> None:
    """Raises ConfigError for options that exclude each other."""
    given = {
        "--jobs": request.jobs is not None,
        "--with-task": request.with_task,
        "--import-from": bool(request.import_from),
        "--dry-run": request.dry_run,
    }
    for one, other, why in (
        ("--jobs", "--import-from", "the one writes job files, the other takes what came of them"),
        ("--jobs", "--dry-run", "--jobs trains nothing and only writes files"),
        ("--import-from", "--dry-run", "--import-from trains nothing and copies what is finished"),
        ("--import-from", "--with-task", "--with-task is for --jobs"),
    ):
        if given[one] and given[other]:
            raise ConfigError(f"{one} was given with {other}: {why}; omit one of them")
    if request.with_task and request.jobs is None:
        raise ConfigError("--with-task says what is written beside the job files; give --jobs FOLDER with it")
    if isinstance(request.storage, str) and (request.with_task or request.import_from):
        raise ConfigError(
            f"--storage got {request.storage}; --with-task and --import-from work in a folder, give one (default "
            f"{DEFAULT_STORAGE})"
        )


def carried_methods(request: ReproduceRequest, console: Console) -> tuple[str, ...]:
    """The methods that are asked for, without those that a job file cannot train, which are said. Raises ConfigError
    where one of these was named."""
    apart = [name for name in method_names(request) if METHODS[name].train is not None]
    if not apart:
        return request.methods
    why = (
        f"--jobs and --import-from carry a pretraining and its fine-tunes, and {', '.join(apart)} trains a network of "
        "its own"
    )
    if request.methods:
        raise ConfigError(f"{why}; omit it from --methods")
    say(console, f"left out: {why}")
    return tuple(name for name in METHODS if name not in apart)


def finetunes_asked_for(request: ReproduceRequest) -> list[FinetuneConfig]:
    """The fine-tunes that the methods ask for. Raises ConfigError for what cannot be reproduced so."""
    methods = [look_up("method", name, METHODS) for name in request.methods or METHODS]
    own, plain = request.recipe.finetune, FinetuneConfig()
    for part, names, given, usual in (
        ("finetune", STATED, own, plain),
        ("calibration", ("dummy_weight",), request.recipe.calibration, CalibrationConfig()),
    ):
        for name in names:
            if getattr(given, name) != getattr(usual, name):
                raise ConfigError(
                    f"{part}.{name} is {getattr(given, name)!r}, and every method has its own; omit it. "
                    "A sweep compares other values"
                )
    for name in request.studies:
        study = STUDIES[name]
        study.check_family(request.split_family)
        if len(study.splits) == 1 and len(request.split_indices) > 1:
            raise ConfigError(
                f"--split-indices gives {len(request.split_indices)} class splits, and {name} knows every class: there "
                "is one. Give other seeds with --seed, each with its own --storage"
            )
    for column in (column for name in request.names for column in PROTOCOLS[name].columns):
        STUDIES[column.study].check_column(column, request.family_of(STUDIES[column.study]))
    return finetunes_of_methods(own, methods)


def checked(request: ReproduceRequest, name: str, finetunes: list[FinetuneConfig], console: Console) -> PreparedStudy:
    """A study whose images are there. Raises ProserError where they are not."""
    resolved = resolve(request, name)
    first = resolved.recipes[0]
    check_recipe(first)
    check_places(first, request.data_dir, request.storage)
    note = schedule_note(first.pretrain, first.data.name)
    if note:
        say(console, f"{name}: {note}")
    try:
        say_defects(first, request.data_dir, console)
        for reason in resolved.left_out.values():
            say(console, f"{name}: not measured: {reason}")
        inputs = TrainingInputs.of(resolved.recipes, request.data_dir, finetunes)
        return PreparedStudy(**vars(resolved), inputs=inputs)
    except ProserError as error:
        raise type(error)(f"{name}: {error}") from error
