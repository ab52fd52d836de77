"""The images of a run, with the progress of what is read: tasks, a user's own photos decoded first, and embeddings by a
frozen backbone, computed here before heads are trained on them."""

from collections.abc import Iterable
from typing import Any

from pipelines.progress import ProgressBar
from pipelines.workflow.session import Session, TrainingSession
from proser_core.config import Recipe
from proser_core.data.data_sets import DataRoot
from proser_core.jobs.embedding import embed_task
from proser_core.jobs.preparing import PHOTOS, decodes_photos, prepare_task
from proser_core.jobs.spec import EMBEDDINGS
from proser_core.store.store import Artefact


def prepare(recipe: Recipe, data_inputs: dict[str, Any], data_dir: DataRoot, session: Session) -> Artefact:
    """The task, the images of a class split by role, found or made now."""
    if not decodes_photos(recipe):
        return prepare_task(recipe, data_inputs, data_dir, session.store)
    with ProgressBar(session.console, PHOTOS, 0, "photos", "preparing") as bar:
        return prepare_task(recipe, data_inputs, data_dir, session.store, progress=bar.report)


def embed(kind: str, tasks: Iterable[tuple[Recipe, Artefact]], session: TrainingSession) -> None:
    """Compute what trainings of this kind need and the storage does not have; nothing where backbones are trained."""
    for recipe, task in tasks:
        if recipe.network.is_frozen(kind):
            with ProgressBar(session.console, EMBEDDINGS, 0, "images", "loading the backbone") as bar:
                embed_task(recipe, task, session.store, bar.report)
