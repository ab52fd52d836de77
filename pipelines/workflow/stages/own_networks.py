"""Stage methods: networks of methods' own, trained by one worker each, a part before what needs it."""

from collections.abc import Sequence

from pipelines.tracking.runs import slug
from pipelines.workflow.session import TrainingSession
from pipelines.workflow.stages.waiting import Epochs, show_progress
from proser_core.jobs import spec
from proser_core.jobs.own_networks.plans import METHODS_FOLDER, OwnPlan, in_order, waves
from proser_core.titles import counted


def train_own_networks(wanted: Sequence[OwnPlan], session: TrainingSession) -> None:
    """Train what is not there yet, side by side where the cluster has room. The reason of one that fails is in its
    folder, and what needs it is not trained."""
    plans = in_order(wanted)
    session.store.sync([plan.folder for plan in plans])
    missing = [plan for plan in plans if plan.outcome() is None]
    if missing and session.trains:
        with session.store.stage(METHODS_FOLDER):
            _train(missing, session)
    for plan in plans:
        _track(plan, session)


def _train(plans: Sequence[OwnPlan], session: TrainingSession) -> None:
    def begun(running: Sequence[OwnPlan], epochs: Epochs) -> str:
        return ", ".join(map(title, running)) if len(running) < 2 else counted(len(running), "network")

    with show_progress(session, METHODS_FOLDER, plans, 1, lambda plan: f"{title(plan)}: ", begun):
        for number, wave in enumerate(waves(plans)):
            able = [plan for plan in wave if not plan.failure_of_part()]
            if able:
                titles = {plan.folder.name: title(plan) for plan in able}
                session.cluster.run_jobs([plan.job() for plan in able], 1, f"{METHODS_FOLDER}-{number}", titles=titles)


def title(plan: OwnPlan) -> str:
    """A training in words."""
    return f"{plan.network.name}, class split {plan.recipe.data.split_index}"


def _track(plan: OwnPlan, session: TrainingSession) -> None:
    """The metrics of its epochs, in tracking too."""
    name = f"{METHODS_FOLDER}/{slug(plan.network.name)}/split_{plan.recipe.data.split_index}"
    session.tracking.track(session.run.curve, name, spec.read_epochs(plan.folder))
