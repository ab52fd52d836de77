"""`proser reproduce figures`: the figures of the paper, from the trainings of the recipe `figures-mnist`."""

import time

from rich.console import Console

from pipelines.reports.page import HTML
from pipelines.reproduction import dag
from pipelines.reproduction.paper_figures.stage import check_drawable
from pipelines.reproduction.protocols import STUDIES
from pipelines.reproduction.request import FiguresRequest
from pipelines.workflow import dag as workflow_dag
from pipelines.workflow.checks import check_run, decided_recipe
from pipelines.workflow.running import open_run_of
from pipelines.workflow.session import announce, close, execute, open_session
from pipelines.workflow.stages.trial_rows import failures_of


def reproduce_figures(request: FiguresRequest, command: str, console: Console) -> int:
    """Train what is missing, and draw; the exit code as of a run. `command` is what the user typed. Raises
    ProserError."""
    started = time.monotonic()
    data_dir, storage = request.data_dir, request.storage
    check_drawable(request.recipe)
    recipe = decided_recipe(request.recipe, data_dir, storage)
    announce(recipe.name, request.recipe, recipe, data_dir, storage, console)
    inputs = check_run(recipe, data_dir)
    outliers = {study.data.name: study.data.outliers for study in STUDIES.values() if study.data.outliers}
    work = "proser reproduce figures"
    with open_session(recipe.cluster, storage, console, work, cluster_file=request.cluster_file) as session:
        session.cluster.check()
        follower = session.follow(open_run_of(session.store, recipe, inputs))
        modules, more = [workflow_dag, dag], {"outliers": outliers, "command": command}
        results = execute(follower, inputs, modules, ["trials", "paged"], **more)
        page = results["paged"]
        session.tracking.track(follower.run.report, page)
        session.tracking.settle()
        session.say(f"Report: {page.path / HTML}")
        return close(session, page.path, started, failures_of(results["trials"]))
