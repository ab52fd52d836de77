"""Tasks of a run: the images of a class split by role, a user's own photos decoded first."""

from typing import Any

from pipelines.progress import ProgressBar
from pipelines.workflow.session import Session
from proser_core.config import Recipe
from proser_core.data.data_sets import DataRoot
from proser_core.jobs.preparing import PHOTOS, decodes_photos, prepare_task
from proser_core.store.store import Artefact


def prepare(recipe: Recipe, data_inputs: dict[str, Any], data_dir: DataRoot, session: Session) -> Artefact:
    """The task, found or made now, with the progress of what is decoded."""
    if not decodes_photos(recipe):
        return prepare_task(recipe, data_inputs, data_dir, session.store)
    with ProgressBar(session.console, PHOTOS, 0, "photos", "preparing") as bar:
        return prepare_task(recipe, data_inputs, data_dir, session.store, progress=bar.report)
