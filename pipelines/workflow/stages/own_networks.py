"""Stage methods: networks of methods' own, trained by one worker each, a part before what needs it."""

from collections.abc import Sequence
from contextlib import closing

from pipelines.progress import ProgressBar, poll_in_background
from pipelines.storage.mirror import has_file, poll_storage, sync
from pipelines.tracking.runs import slug
from pipelines.workflow.session import TrainingSession
from pipelines.workflow.stages.finetune import STARTING, Shortage, first_epoch
from proser_core.jobs import spec
from proser_core.jobs.own_plans import OWN_FOLDER, OwnPlan, in_order, waves
from proser_core.store.store import MANIFEST


def train_own_networks(wanted: Sequence[OwnPlan], bf16: bool, session: TrainingSession) -> None:
    """Train what is not there yet, side by side where the cluster has room. The reason of one that fails is in its
    folder, and what needs it is not trained."""
    plans = in_order(wanted)
    sync(session.store, [plan.folder for plan in plans])
    missing = [plan for plan in plans if plan.outcome() is None]
    if missing and session.trains:
        with session.store.stage(OWN_FOLDER):
            _train(missing, bf16, session)
    for plan in plans:
        _track(plan, session)


def _train(plans: Sequence[OwnPlan], bf16: bool, session: TrainingSession) -> None:
    folders, total = [plan.folder for plan in plans], sum(plan.epochs for plan in plans)
    poll_storage(session.store, folders)
    for plan in plans:
        if has_file(session.store, plan.folder / spec.STATE):
            done = f"epoch {len(spec.read_epochs(plan.folder))} of {plan.epochs}"
            session.say(f"  {title(plan)}: resuming after {done}")
    progress = ProgressBar(session.console, OWN_FOLDER, total, "epochs", session.cluster.starting or STARTING)
    shortage = Shortage(session, 1)

    def poll() -> None:
        poll_storage(session.store, folders)
        shortage.poll()
        epochs = [len(spec.read_epochs(folder)) for folder in folders]
        begun = [plan for plan in plans if plan.folder.is_dir() and not (plan.folder / MANIFEST).is_file()]
        note = ", ".join(title(plan) for plan in begun[:3])
        progress.update(sum(epochs), note, first_epoch(session, len(begun)), len(begun) or 1)

    with closing(progress), poll_in_background(poll, session.tracking.warn):
        for number, wave in enumerate(waves(plans)):
            able = [plan for plan in wave if not plan.failure_of_part()]
            if able:
                session.cluster.run_jobs([plan.job(bf16) for plan in able], 1, f"{OWN_FOLDER}-{number}")


def title(plan: OwnPlan) -> str:
    """A training in words."""
    return f"{plan.network.name}, class split {plan.recipe.data.split_index}"


def _track(plan: OwnPlan, session: TrainingSession) -> None:
    """The metrics of its epochs, in tracking too."""
    name = f"{OWN_FOLDER}/{slug(plan.network.name)}/split_{plan.recipe.data.split_index}"
    session.tracking.track(lambda: session.run.curve(name, spec.read_epochs(plan.folder)))
