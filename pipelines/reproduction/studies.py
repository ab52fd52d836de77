"""The studies of a request, checked before any work: images, fine-tunes, and what their numbers belong to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from pipelines.console import say
from pipelines.recipes.schedules import schedule_in_words, schedule_note
from pipelines.reproduction.protocols import PROTOCOLS, STUDIES
from pipelines.reproduction.request import ReproduceRequest
from pipelines.reproduction.results import OWN_SCHEDULE, SplitResult
from pipelines.workflow.checks import check_places, decide_features
from pipelines.workflow.session import say_warnings
from pipelines.workflow.training import TrainingInputs
from proser_core.baselines import METHODS
from proser_core.baselines.controls import finetunes_of_methods
from proser_core.baselines.methods import same_network
from proser_core.config import CalibrationConfig, FinetuneConfig, NetworkConfig, Recipe
from proser_core.config.calibration import AUTO
from proser_core.config.named_finetunes import STATED
from proser_core.data.outliers.outlier_sets import open_outlier_set, outlier_notes
from proser_core.data.splits.families import trial_seed
from proser_core.errors import ConfigError, ProserError, first_line
from proser_core.jobs.further_development import check_further
from proser_core.jobs.own_networks.methods import OwnMethods
from proser_core.jobs.own_networks.plans import check_servable
from proser_core.jobs.task_checks import missing_images
from proser_core.jobs.trials import check_recipe
from proser_core.networks.pretrained import with_pretrained


@dataclass(frozen=True)
class ResolvedStudy:
    """A study with a recipe for each class split. `left_out` are outlier sets that cannot be read, by name why; `notes`
    are what a reader must know of the others, by name, and of the schedule."""

    name: str
    recipes: list[Recipe]
    left_out: dict[str, str]
    notes: dict[str, str]


@dataclass(frozen=True)
class PreparedStudy(ResolvedStudy):
    """A study whose images are there, with the inputs of its trainings."""

    inputs: TrainingInputs


def check_reproducible(request: ReproduceRequest) -> None:
    """Raises ConfigError for unknown methods, and options with which nothing can be reproduced."""
    for name in (*request.methods, *request.register):
        METHODS[name]  # refuses an unknown one
    tuned, plain = request.recipe.finetune, FinetuneConfig()
    for part, names, given, usual in (
        ("finetune", STATED, tuned, plain),
        ("calibration", ("dummy_weight", "network"), request.recipe.calibration, CalibrationConfig()),
    ):
        for name in names:
            if getattr(given, name) != getattr(usual, name):
                option = f"--{part}.{name}".replace("_", "-")
                raise ConfigError(
                    f"{option} got {getattr(given, name)}, and every method has its own; omit it. "
                    "A sweep compares other values"
                )
    if request.recipe.calibration.mirror and network_names(request):
        networks = ", ".join(network_names(request))
        raise ConfigError(
            f"calibration.mirror does not work with methods that train their own networks ({networks}); omit one "
            "of the two"
        )
    if request.recipe.calibration.reads_embeddings and request.register:
        raise ConfigError(
            f"--register {' '.join(request.register)} registers a method by its own score, without mirrored images; "
            "omit calibration.score and calibration.mirror, which `proser run` has for a model"
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


def resolve(request: ReproduceRequest, name: str) -> ResolvedStudy:
    """A study with the outlier sets that the data directory holds now."""
    study = STUDIES[name]
    absent = {each: open_outlier_set(each, request.data_dir).missing for each in study.data.outliers}
    there = [each for each, reason in absent.items() if not reason]
    family = request.family_of(study)
    options: dict[str, Any] = {
        "download": request.download,
        "image_size": request.image_size or study.data.image_size,
        "outliers": tuple(there) or study.data.outliers,  # where none is there, preparing names the first
    }
    recipes = [
        replace(
            request.recipe,
            name=name,
            space="",
            seed=trial_seed(data, request.recipe.seed),
            data=replace(data, **options),
        )
        for data in (study.data_of(family, index) for index in request.split_indices or study.splits_of(family))
    ]
    recipes = [decide_features(with_pretrained(recipe), request.data_dir) for recipe in recipes]
    left_out = {each: reason for each, reason in absent.items() if there and reason}
    note = schedule_note(request.recipe.pretrain, study.data.name)
    notes = {**({f"schedule on {study.title}": note} if note else {}), **outlier_notes(there, request.data_dir)}
    return ResolvedStudy(name, recipes, left_out, notes)


def prepare_study(request: ReproduceRequest, resolved: ResolvedStudy, console: Console) -> PreparedStudy:
    """A study whose images are there. Raises ProserError where they are not, or a method does not suit the network."""
    name, first = resolved.name, resolved.recipes[0]
    check_recipe(first)
    for network in own_methods(request).networks:
        check_servable(network, first)
    check_places(first, request.data_dir, request.storage)
    note = schedule_note(first.pretrain, first.data.name)
    if note:
        say(console, f"{name}: {note}")
    try:
        check_further(first, request.data_dir)
        say_warnings(first, request.data_dir, console)
        for reason in resolved.left_out.values():
            say(console, f"{name}: not measured: {reason}")
        finetunes = finetunes_of_methods(first, [METHODS[each] for each in method_names(request)])
        for finetune in finetunes:
            replace(first, finetune=finetune)  # its checks
        inputs = TrainingInputs.of(resolved.recipes, request.data_dir, finetunes)
        return PreparedStudy(**vars(resolved), inputs=inputs)
    except ProserError as error:
        raise type(error)(f"{name}: {error}") from error


def skipped_studies(request: ReproduceRequest, studies: Sequence[ResolvedStudy]) -> dict[str, str]:
    """Studies, with why, whose images are missing and that no protocol needs, since each has another column."""
    reasons = {each.name: missing_images(each.recipes[0], request.data_dir) for each in studies}
    absent = {name: reason for name, reason in reasons.items() if reason}
    read_by = [PROTOCOLS[name].studies for name in request.names]
    needed = {study for studies in read_by if set(studies) <= absent.keys() for study in studies}
    return {name: reason for name, reason in absent.items() if name not in needed}


def method_names(request: ReproduceRequest) -> list[str]:
    """The methods in the order of a table. Those that train a fresh network are left out unless they are asked for; MSP
    and MaxLogit of each network of a method's own stand beside it."""
    by_default = [
        name for name, method in METHODS.items() if (request.own_networks if method.network else method.by_default)
    ]
    return same_network([*(request.methods or by_default), *request.register])


def network_names(request: ReproduceRequest) -> list[str]:
    """The networks of their own that the methods score, each once."""
    return [network.name for network in own_methods(request).networks]


def own_methods(request: ReproduceRequest) -> OwnMethods:
    """The methods with networks of their own, and the schedule of these."""
    return OwnMethods(tuple(name for name in method_names(request) if METHODS[name].network), request.schedule)


def facts(
    request: ReproduceRequest,
    resolved: Sequence[ResolvedStudy],
    results: Sequence[SplitResult],
    skipped: Iterable[str],
    failed: Mapping[str, Exception],
) -> dict[str, str]:
    """What the numbers belong to, and what was not measured; nothing of it changes where all is found finished."""
    recipe = request.recipe
    schedule = f"{schedule_in_words(recipe.pretrain)}, {recipe.finetune.epochs} of fine-tuning"
    sizes = " and ".join(sorted({str(each.data.image_size) for study in resolved for each in study.recipes}))
    found = {
        "schedule": f"{schedule}, {_network(recipe.network)}, images of {sizes} pixels, {recipe.precision}",
        "class splits": ", ".join(map(str, sorted({result.split_index for result in results}))),
        "seed": "; ".join([str(recipe.seed), *filter(None, map(_seeds, resolved))]),
        "trained on": "; ".join(sorted({place for result in results for place in result.trained_on})),
    }
    if recipe.calibration.score:
        by = ["development", *recipe.calibration.development] if recipe.calibration.score == AUTO else []
        found["scores"] = recipe.calibration.score + (f", by {' and '.join(by)}" if by else "")
    if recipe.calibration.mirror:
        found["evaluated as"] = "the average of image and mirrored image"
    if network_names(request):
        found[OWN_SCHEDULE] = f"{', '.join(network_names(request))}, schedule {request.schedule}"
    found |= {name: f"failed: {first_line(error)}" for name, error in failed.items()}
    left_out = [STUDIES[name].title for name in skipped]
    for each in resolved:
        found |= each.notes
        left_out += each.left_out
    return found | dict.fromkeys(left_out, "not measured: its images were not there")


def _network(network: NetworkConfig) -> str:
    dropout = f" with dropout {network.dropout:g}" if network.dropout else ""
    return f"backbone {network.backbone}{dropout}"


def _seeds(resolved: ResolvedStudy) -> str:
    """The seeds of a study whose class splits do not share one; empty where they do."""
    seeds = list(dict.fromkeys(recipe.seed for recipe in resolved.recipes))
    if len(seeds) == 1:
        return ""
    return f"of {STUDIES[resolved.name].title}, whose trials have the same known classes, {', '.join(map(str, seeds))}"
