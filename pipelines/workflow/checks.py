"""What is refused before Ray and MLflow are loaded, which takes seconds."""

from pathlib import Path

from pipelines.tracking.server import tracking_folder
from pipelines.workflow.training import TrainingInputs, finetunes_of, points_of
from proser_core.config import Recipe
from proser_core.errors import ConfigError
from proser_core.jobs.preparing import check_split, prepare_inputs
from proser_core.jobs.trials import check_recipe
from proser_core.networks.nets import make_closed_set_net
from proser_core.networks.weights import load_weights


def run_inputs(recipe: Recipe, data_dir: Path | None, pretrained_file: Path | None = None) -> TrainingInputs:
    """The inputs of a run of one recipe. Raises ProserError for whatever of them cannot be used."""
    check_recipe(recipe)
    check_split(recipe, data_dir)
    prepare_inputs(recipe, data_dir)  # raises DataError where the images are not found
    if pretrained_file is not None:
        check_weights(recipe, pretrained_file)
    points = points_of(recipe, recipe.space)  # the module of a space loads ray
    spaces = {recipe.space: points} if recipe.space else {}
    finetunes = finetunes_of(recipe, points)
    return TrainingInputs.of([recipe], data_dir, finetunes, spaces=spaces, pretrained_file=pretrained_file)


def check_places(recipe: Recipe, data_dir: Path | None, storage: Path | str) -> None:
    """Raises ConfigError where images are to be streamed and machines share no folder, and where output would lie among
    a user's own images."""
    if recipe.data.streaming and isinstance(storage, str):
        raise ConfigError(
            f"data.streaming is on, which reads images where they lie, and --storage got {storage}, behind which "
            "machines share no folder; give a folder that all of them see, or set data.streaming to false"
        )
    if recipe.data.name != "folder" or data_dir is None:
        return
    written = {"--storage": storage, "the tracking database": tracking_folder()}
    for name, place in written.items():
        if isinstance(place, Path) and place.resolve().is_relative_to(data_dir.resolve()):
            raise ConfigError(
                f"{name} writes to {place}, which is in the data directory {data_dir}: figures would be taken for "
                "images. Run the command from another folder, or set --storage and MLFLOW_TRACKING_URI elsewhere"
            )


def check_weights(recipe: Recipe, path: Path) -> None:
    """Raises CheckpointError, before any worker starts, for weights that do not fit the network, ConfigError where no
    fine-tune would begin from them."""
    if recipe.finetune.start == "scratch":
        raise ConfigError(
            f"--pretrained got {path}, and finetune.start is scratch: no training would begin from it. "
            "Give a recipe that fine-tunes, such as cifar100-cpu-finetune"
        )
    net = make_closed_set_net(recipe.network, recipe.data.num_known, recipe.data.image_size, recipe.seed)
    load_weights(net, path)
