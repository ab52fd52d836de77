"""What is decided and refused before Ray and MLflow are loaded, which takes seconds."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pipelines.tracking.server import tracking_folder
from pipelines.workflow.own_images import pointing_to_inspection
from pipelines.workflow.requests import RunRequest
from pipelines.workflow.training import TrainingInputs, finetunes_of, spaces_of, stoppable_points
from proser_core.config import DataConfig, Recipe
from proser_core.data.data_sets import DataRoot, listed_once, open_data_set, path_of
from proser_core.errors import ConfigError, DataError
from proser_core.jobs.further_development import check_further
from proser_core.jobs.task_checks import refuse_among_images
from proser_core.jobs.trials import check_recipe
from proser_core.networks.nets import make_closed_set_net
from proser_core.networks.pretrained import with_features, with_pretrained
from proser_core.networks.weights import load_weights
from proser_core.processor import resolve_precision


class CheckedRun(NamedTuple):
    """The recipe of a request as workers take it, its data directory, and the inputs of its training; None where it
    knows all classes: the recipes of the proxy and of all classes are made later."""

    recipe: Recipe
    data_dir: DataRoot
    inputs: TrainingInputs | None


def check_request(request: RunRequest) -> CheckedRun:
    """Raises ProserError for options that cannot be used, and for images that are not found."""
    data_dir = listed_once(request.data_dir)
    recipe = decided_recipe(request.recipe, data_dir, request.storage)
    if not recipe.data.knows_all:
        return CheckedRun(recipe, data_dir, check_run(recipe, data_dir, request.pretrained))
    if request.pretrained is not None:
        raise ConfigError(
            f"--pretrained got {request.pretrained}, and with --data.num-known 0 a run first trains without some of "
            "the classes, which the checkpoint knows. Give --data.num-known and what is unknown, or weights of a "
            "backbone with --network.weights-file"
        )
    _check_missing(recipe, data_dir)
    return CheckedRun(recipe, data_dir, None)


def _check_missing(recipe: Recipe, data_dir: DataRoot) -> None:
    if missing := open_data_set(recipe.data.name, data_dir).missing:
        raise DataError(missing)


def check_run(recipe: Recipe, data_dir: DataRoot, pretrained_file: Path | None = None) -> TrainingInputs:
    """The inputs of a run. Raises ProserError for everything that can be checked before any work."""
    check_recipe(recipe)
    if pretrained_file is not None:
        _check_start(recipe, pretrained_file)
    check_further(recipe, data_dir)
    if recipe.stop_early and not recipe.space:
        raise ConfigError("stop_early is set and space is empty: no point could be stopped; give a space, or omit it")
    inputs = TrainingInputs.of([recipe], data_dir, [], pretrained_file=pretrained_file)
    spaces = spaces_of(recipe)  # a space is in Tune's words, which load Ray: after the images
    return replace(
        inputs,
        finetunes=finetunes_of(recipe, spaces.get(recipe.space, [])),
        spaces=spaces,
        stoppable=stoppable_points(recipe, spaces, [recipe.space]) if recipe.stop_early else [],
    )


def _check_start(recipe: Recipe, pretrained_file: Path) -> None:
    """Raises ConfigError for a checkpoint from which no fine-tune would begin, CheckpointError for weights that do not
    fit the network."""
    if recipe.network.is_frozen("pretrain"):
        raise ConfigError(
            f"--pretrained got {pretrained_file}, and network.features is {recipe.network.features}: only heads on the "
            "backbone's own weights would be trained. Set network.features to trained"
        )
    if recipe.finetune.start == "scratch":
        raise ConfigError(
            f"--pretrained got {pretrained_file}, and finetune.start is scratch: no training would begin from it. "
            "Give a recipe that fine-tunes, such as cifar100-cpu-finetune"
        )
    net = make_closed_set_net(recipe.network, recipe.data.num_known, recipe.data.image_size, recipe.seed)
    load_weights(net, pretrained_file)


def decided_recipe(recipe: Recipe, data_dir: DataRoot, storage: Path | str) -> Recipe:
    """The recipe as workers take it. Raises as `check_places`, `for_workers` and `decide_features`, and DataError for a
    user's own images that cannot be listed or are of one class, before weights are fetched for them."""
    check_places(recipe, data_dir, storage)
    if recipe.network.is_of_library and recipe.data.is_own:
        _check_missing(recipe, data_dir)
        with pointing_to_inspection(recipe.data, data_dir):
            if recipe.data.knows_all:
                check_classes(recipe.data, open_data_set(recipe.data.name, data_dir).num_classes)
            expected_images(recipe, data_dir)
    return decide_features(decide_precision(for_workers(recipe)), data_dir)


def decide_precision(recipe: Recipe) -> Recipe:
    """The recipe with the precision of its trainings: as it says, or what the hardware here has."""
    return replace(recipe, precision="bf16" if resolve_precision(recipe) else "fp32")


def decide_features(recipe: Recipe, data_dir: DataRoot) -> Recipe:
    """The recipe with `network.features` decided, for a backbone of a library by the number of its training images.
    Raises ConfigError where features cannot be frozen."""
    network = recipe.network
    if not network.is_of_library:
        return recipe if network.features == "auto" else with_features(recipe, 0)
    return with_features(recipe, expected_images(recipe, data_dir)["train"])


def expected_images(recipe: Recipe, data_dir: DataRoot) -> dict[str, int]:
    """Images of a class split by role before it is prepared, as if classes had equally many."""
    data = recipe.data
    known = open_data_set(data.name, data_dir)
    num_known = data.num_known or known.num_classes
    train = known.num_images("train") * num_known // known.num_classes
    if "val" in known.drawn_parts:
        val = round(data.val_fraction * train)
        train -= val
    else:
        val = known.num_images("val") * num_known // known.num_classes
    test = sum(open_data_set(each, data_dir).num_images("test") for each in (data.name, data.unknown) if each)
    return {
        "train": train,
        "val": val,
        "development": val if data.has_development else 0,
        "test": test * (1 + len(data.outliers)),
    }


def for_workers(recipe: Recipe) -> Recipe:
    """The recipe with what a pretrained backbone brings, its weights as a file. Workers may run in another directory
    than the one in which its path was typed."""
    recipe = with_pretrained(recipe)
    path = recipe.network.weights_file
    return replace(recipe, network=replace(recipe.network, weights_file=str(Path(path).absolute()))) if path else recipe


def check_places(recipe: Recipe, data_dir: DataRoot, storage: Path | str) -> None:
    """Raises DataError for a data directory that is not a folder, unless torchvision is to make it; ConfigError where
    images are to be streamed and machines share no folder, and where output would lie among a user's own images."""
    place = path_of(data_dir)
    if place is not None and not place.is_dir() and not recipe.data.download:
        missing = open_data_set(recipe.data.name, place).missing
        raise DataError(missing or f"--data-dir got {place}, which is not a folder; give one that exists, or omit it")
    if recipe.data.streaming and isinstance(storage, str):
        raise ConfigError(
            f"data.streaming is on, which reads images where they lie, and --storage got {storage}, behind which "
            "machines share no folder; give a folder that all of them see, or --data.no-streaming"
        )
    storage_here = storage if isinstance(storage, Path) else None
    written = {"--storage": storage_here, "the tracking database (MLFLOW_TRACKING_URI)": tracking_folder()}
    refuse_among_images(recipe.data, data_dir, written)


def check_classes(data: DataConfig, num_classes: int) -> None:
    """Raises DataError for fewer than two classes of a data set of which all are to be known."""
    if num_classes < 2:
        raise DataError(
            f"{data.name} has {'1 class' if num_classes else 'no class'}; need 2 or more to tell apart. Add a folder "
            "of images for each further class"
        )
