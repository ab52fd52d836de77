"""Waiting for trainings: what their folders say meanwhile, on the terminal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pipelines.progress import ProgressBar, poll_in_background
from pipelines.workflow.session import TrainingSession
from proser_core.config import Recipe
from proser_core.jobs import spec
from proser_core.jobs.own_networks.plans import OwnPlan
from proser_core.jobs.trials import Pretraining
from proser_core.store.store import MANIFEST

Epochs = Mapping[Path, list[dict[str, float]]]
"""By folder of a training, the metrics of its epochs so far."""
Plan = TypeVar("Plan", Pretraining, OwnPlan)


@contextmanager
def show_progress(
    session: TrainingSession,
    stage: str,
    plans: Sequence[Plan],
    workers: int,
    title: Callable[[Plan], str],
    note: Callable[[Sequence[Plan], Epochs], str],
    track: Callable[[Epochs], None] = lambda epochs: None,
) -> Iterator[None]:
    """Print which plans resume, in lines that begin with their titles, and show the epochs of all while the block
    trains each with so many workers. Once a second `note` describes those that run and the epochs of all in a few
    words, and `track` brings tracking up to date; its failure does not stop the bar."""
    folders = [plan.folder for plan in plans]
    session.store.poll(folders)
    for plan in plans:
        if session.store.has_file(plan.folder / spec.STATE):
            done = len(spec.read_epochs(plan.folder))
            session.say(f"  {title(plan)}resuming after epoch {done} of {plan.epochs}")
    total = sum(plan.epochs for plan in plans)
    progress = ProgressBar(session.console, stage, total, "epochs", "")
    shortage = Shortage(session, workers)

    def poll() -> None:
        session.store.poll_if_due(folders)
        shortage.poll()
        epochs = {folder: spec.read_epochs(folder) for folder in folders}
        begun = [plan for plan in plans if plan.folder.is_dir() and not (plan.folder / MANIFEST).is_file()]
        running = number_running(session, len(begun), workers)
        doing = first_epoch(session, plans[0].recipe, stage, running)
        progress.update(sum(map(len, epochs.values())), note(begun[:running], epochs), doing, running or 1)
        track(epochs)

    with progress, poll_in_background(poll, session.tracking.warn, session.tracking.say_awaited):
        yield


def number_running(session: TrainingSession, begun: int, workers: int) -> int:
    """How many of the trainings that have begun, now or in an earlier run, can run now: the cluster may have room for
    fewer."""
    return begun if session.cluster.starting else min(begun, session.cluster.concurrent_jobs(workers))


def first_epoch(session: TrainingSession, recipe: Recipe, kind: str, running: int) -> str:
    """What goes on until the first epoch of any training of this kind is done; nothing where heads of embeddings are
    trained, each within seconds."""
    if recipe.network.is_frozen(kind):
        return ""
    many = f" of {running} trainings" if running > 1 else ""
    return session.cluster.starting or (f"first epoch{many}" if running else "starting workers")


class Shortage:
    """Says when a cluster that lost nodes has no room for any training, which Ray would wait for in silence."""

    def __init__(self, session: TrainingSession, workers: int) -> None:
        self._session, self._workers, self._said = session, workers, ""

    def poll(self) -> None:
        """Compare what one training of so many workers needs with what there is now."""
        shortage = self._session.cluster.shortage(self._workers)
        if shortage != self._said:
            self._said = shortage
            self._session.say(f"  waiting for {shortage}" if shortage else "  the cluster has room again")
