"""Embeddings of images by a frozen backbone, computed here before heads are trained on them."""

from collections.abc import Iterable

from pipelines.progress import ProgressBar
from pipelines.workflow.session import TrainingSession
from proser_core.config import Recipe
from proser_core.jobs.embedding import embed_task
from proser_core.jobs.spec import EMBEDDINGS
from proser_core.store.store import Artefact


def embed(kind: str, tasks: Iterable[tuple[Recipe, Artefact]], session: TrainingSession) -> None:
    """Compute what trainings of this kind need and the storage does not have; nothing where backbones are trained."""
    for recipe, task in tasks:
        if recipe.network.is_frozen(kind):
            with ProgressBar(session.console, EMBEDDINGS, 0, "images", "loading the backbone") as bar:
                embed_task(recipe, task, session.store, bar.report)
