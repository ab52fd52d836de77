"""What is refused before Ray and MLflow are loaded, which takes seconds."""

from pathlib import Path

from pipelines.tracking.server import tracking_folder
from proser_core.config import Recipe
from proser_core.data.data_sets import open_data_set
from proser_core.errors import ConfigError, DataError
from proser_core.jobs.further_development import check_further
from proser_core.jobs.preparing import check_split, prepare_inputs
from proser_core.jobs.trials import check_recipe


def check_request(recipe: Recipe, data_dir: Path | None, storage: Path | str, pretrained_file: Path | None) -> None:
    """Raises ProserError for options that cannot be used, and for images that are not found."""
    check_places(recipe, data_dir, storage)
    if recipe.data.knows_all:
        missing = open_data_set(recipe.data.name, data_dir).missing
        if missing:
            raise DataError(missing)
        return  # the rest is of the proxy and of all classes, whose recipes are made later
    check_recipe(recipe)
    check_start(recipe, pretrained_file)
    check_split(recipe, data_dir)
    check_further(recipe, data_dir)
    prepare_inputs(recipe, data_dir)  # finds the images


def check_start(recipe: Recipe, pretrained_file: Path | None) -> None:
    """Raises ConfigError for a checkpoint from which no fine-tune would begin."""
    if pretrained_file is not None and recipe.network.is_frozen("pretrain"):
        raise ConfigError(
            f"--pretrained got {pretrained_file}, and network.features is {recipe.network.features}: only heads on the "
            "backbone's own weights would be trained. Set network.features to trained"
        )
    if pretrained_file is not None and recipe.finetune.start == "scratch":
        raise ConfigError(
            f"--pretrained got {pretrained_file}, and finetune.start is scratch: no training would begin from it. "
            "Give a recipe that fine-tunes, such as cifar100-cpu-finetune"
        )


def check_places(recipe: Recipe, data_dir: Path | None, storage: Path | str) -> None:
    """Raises DataError for a data directory that is no folder, unless torchvision is to make it; ConfigError where
    images are to be streamed and machines share no folder, and where output would lie among a user's own images."""
    if data_dir is not None and not data_dir.is_dir() and not recipe.data.download:
        missing = open_data_set(recipe.data.name, data_dir).missing
        raise DataError(missing or f"--data-dir got {data_dir}, which is no folder; give one that exists, or omit it")
    if recipe.data.streaming and isinstance(storage, str):
        raise ConfigError(
            f"data.streaming is on, which reads images where they lie, and --storage got {storage}, behind which "
            "machines share no folder; give a folder that all of them see, or --data.no-streaming"
        )
    if not recipe.data.is_own or data_dir is None:
        return
    written = {"--storage": storage, "the tracking database": tracking_folder()}
    for name, place in written.items():
        if isinstance(place, Path) and place.resolve().is_relative_to(data_dir.resolve()):
            raise ConfigError(
                f"{name} writes to {place}, which is in the data directory {data_dir}: figures would be taken for "
                "images. Run the command from another folder, or set --storage and MLFLOW_TRACKING_URI elsewhere"
            )
