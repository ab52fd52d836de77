"""Stage pretrain: the closed-set network, trained by DDP workers or brought by the user."""

from pathlib import Path

from pipelines.context import RunContext
from pipelines.progress import Tracker, watching
from proser_core.config import Recipe
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs import spec
from proser_core.jobs.store import Artefact
from proser_core.jobs.trials import pretrain_job
from proser_core.networks.nets import make_closed_set_net
from proser_core.networks.weights import load_weights
from proser_core.recognition.logits import load_logits


def check_weights(recipe: Recipe, path: Path) -> None:
    """Raises CheckpointError, before any worker starts, for weights that do not fit the network."""
    net = make_closed_set_net(recipe.network, recipe.data.num_known, recipe.data.image_size, recipe.seed)
    load_weights(net, path)


def pretrain(recipe: Recipe, task: Artefact, context: RunContext, folder: Path) -> None:
    """Train from scratch, or check and score the user's own weights; on Ray Train workers."""
    workers = recipe.cluster.pretrain_workers
    own = str(context.pretrained_file.resolve()) if context.pretrained_file else ""
    job = pretrain_job(recipe, task, folder, context.bf16, own)
    if (folder / spec.STATE).is_file():
        context.say(f"  going on after epoch {len(spec.read_epochs(folder))} of {recipe.pretrain.epochs}")
    progress = Tracker(context.console, "pretrain", recipe.pretrain.epochs, "epochs")

    def poll() -> None:
        rows = spec.read_epochs(folder)
        accuracy = f"training accuracy {rows[-1]['train/accuracy']:.3f}" if rows else ""
        progress.update(len(rows), accuracy)
        context.parent.curve("pretrain", rows)

    try:
        with watching(poll, context.watch_failed):
            context.cluster.run_distributed(job, 1 if own else workers)
    finally:
        progress.close()
    _say_accuracy(context, OpenSetTask.load(task.path), folder)


def _say_accuracy(context: RunContext, task: OpenSetTask, folder: Path) -> None:
    predictions = load_logits(folder / spec.LOGITS)["val"].known_predictions()
    accuracy = float((predictions == task.val.targets).mean())
    context.say(f"  closed-set accuracy on validation images: {100 * accuracy:.1f} %")
    if accuracy < 2 / task.num_known:
        context.say(
            "  that is near chance. For a checkpoint of your own: the order of its classes must be that of "
            f"class_split.json, and it must have been trained with mean {task.mean} and standard deviation {task.std}"
        )
