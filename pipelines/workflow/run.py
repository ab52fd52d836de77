"""`proser run`: a recipe through every stage, from images to a registered classifier."""

import time

from rich.console import Console

from pipelines.tracking.server import check_tracking
from pipelines.workflow.checks import CheckedRun
from pipelines.workflow.plan.printing import print_plans
from pipelines.workflow.refit import choose_and_refit, planned_inputs
from pipelines.workflow.requests import RunRequest
from pipelines.workflow.run_stages import finish_run, open_run_of
from pipelines.workflow.session import announce, open_session
from proser_core.data.data_sets import open_data_set


def run_checked(request: RunRequest, checked: CheckedRun, console: Console) -> int:
    """Run what was checked, or print the plan; the exit code as of a run. Raises ProserError where a node, the storage
    or tracking cannot be used."""
    started, recipe, inputs = time.monotonic(), checked.recipe, checked.inputs
    data_dir, storage = checked.data_dir, request.storage
    announce(recipe.name, request.recipe, recipe, data_dir, storage, console)
    work = f"proser run {recipe.name}"
    with open_session(recipe.cluster, storage, console, work, cluster_file=request.cluster_file) as session:
        if request.dry_run:
            check_tracking(dry_run=True)
        if inputs is None:
            num_classes = open_data_set(recipe.data.name, data_dir).num_classes
            if request.dry_run:
                print_plans(planned_inputs(recipe, num_classes, data_dir, session), session)
                return 0
            return choose_and_refit(recipe, num_classes, data_dir, session, started)
        session.cluster.check()
        if request.dry_run:
            print_plans({"": inputs}, session)
            return 0
        return finish_run(inputs, session.follow(open_run_of(session.store, recipe, inputs)), started)
