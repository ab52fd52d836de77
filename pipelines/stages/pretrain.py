"""Stage pretrain: the closed-set network, trained by DDP workers or brought by the user."""

from pathlib import Path

from pipelines import jobs
from pipelines.context import RunContext
from pipelines.progress import Tracker, watching
from pipelines.store import Artefact
from proser_core.config import Recipe, to_json
from proser_core.networks.nets import make_closed_set_net
from proser_core.networks.weights import load_weights


def check_weights(recipe: Recipe, path: Path) -> None:
    """Raises CheckpointError, before any worker starts, for weights that do not fit the network."""
    net = make_closed_set_net(recipe.network, recipe.data.num_known, recipe.data.image_size, recipe.seed)
    load_weights(net, path)


def pretrain(recipe: Recipe, task: Artefact, context: RunContext, folder: Path) -> None:
    """Train from scratch, or check and score the user's own weights; on Ray Train workers."""
    if context.pretrained_file:
        check_weights(recipe, context.pretrained_file)
    workers = recipe.cluster.pretrain_workers
    own = str(context.pretrained_file.resolve()) if context.pretrained_file else ""
    job = jobs.Job(
        kind="pretrain",
        recipe=to_json(recipe),
        task=str(task.path),
        folder=str(folder),
        weights=own,
        threads=recipe.cluster.cpus_per_worker,
        bf16=context.bf16,
    )
    progress = Tracker(context.console, "pretrain", recipe.pretrain.epochs, "epochs")

    def poll() -> None:
        rows = jobs.read_epochs(folder)
        accuracy = f"training accuracy {rows[-1]['train/accuracy']:.3f}" if rows else ""
        progress.update(len(rows), accuracy)

    try:
        with watching(poll, context.tracking_failed):
            context.cluster.run_distributed(job, 1 if own else workers)
    finally:
        progress.close()
