"""One sweep: search spaces of a recipe over class splits. Checks and the plan first, then the DAG."""

import time
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from pipelines.reports.sweep_table import read_table
from pipelines.reports.terminal import sweep_tables
from pipelines.tracking.server import check_tracking
from pipelines.workflow import dag
from pipelines.workflow.checks import decided_recipe
from pipelines.workflow.plan.photos import plan_photos
from pipelines.workflow.plan.table import Plan, check_disk, in_words
from pipelines.workflow.plan.trainings import SplitPlan, has_begun, measure, plan_splits
from pipelines.workflow.requests import SweepRequest
from pipelines.workflow.session import Session, announce, close, execute, mark_run_failed, open_run, open_session
from pipelines.workflow.stages.report import promotion_note
from pipelines.workflow.stages.trial_rows import failures_of
from pipelines.workflow.training import TrainingInputs, finetunes_of, points_of, stoppable_points
from proser_core.data.data_sets import DataRoot, listed_once
from proser_core.errors import ConfigError
from proser_core.jobs.trials import check_recipe
from proser_core.titles import duration
from tune_spaces import draws_values

REPORTED = "sweep_logged"


def sweep(request: SweepRequest, console: Console) -> int:
    """Print the plan, then train and report what is missing of it; the exit code as of a run. Raises ProserError before
    any work for whatever can be refused."""
    started = time.monotonic()
    data_dir = listed_once(request.data_dir)
    recipe = decided_recipe(request.recipe, data_dir, request.storage)
    announce(request.title, request.recipe, recipe, data_dir, request.storage, console)
    request = replace(request, recipe=recipe)
    inputs = _inputs(request, data_dir)
    with open_session(
        recipe.cluster,
        request.storage,
        console,
        f"proser sweep {request.title}",
        cluster_file=request.cluster_file,
        stops_trials=bool(inputs.max_seconds),
    ) as session:
        session.cluster.check()
        plans = _plans(request, inputs, session)
        check_tracking(dry_run=request.dry_run)
        console.print(_plan(request, inputs, plans, session), highlight=False)
        return 0 if request.dry_run else _train(request, inputs, session, started)


def _inputs(request: SweepRequest, data_dir: DataRoot) -> TrainingInputs:
    """Every point of the spaces on every class split. Raises ConfigError for what cannot be swept."""
    recipe = request.recipe
    check_recipe(recipe)
    if not (recipe.data.settings and recipe.data.has_development):
        raise ConfigError(
            f"data.unknown_settings is {recipe.data.unknown_settings} and data.development {recipe.data.development}; "
            "a sweep compares points on unknown classes: give both, or data.outliers and the second"
        )
    if recipe.calibration.development:
        names = ", ".join(recipe.calibration.development)
        raise ConfigError(
            f"calibration.development names {names}, whose images only `proser run` reads: nothing of this sweep could "
            "be promoted. Omit it"
        )
    drawn = [name for name in request.spaces if draws_values(name)]
    if not drawn and request.num_samples != SweepRequest.num_samples:
        raise ConfigError(
            f"--num-samples got {request.num_samples}, and {' and '.join(request.spaces)} "
            f"{'is a grid' if len(request.spaces) == 1 else 'are grids'}, of which every point is trained; omit it"
        )
    compared = request.spaces if recipe.stop_early else drawn
    if compared and len(request.splits) > 1 and not recipe.network.is_frozen("finetune"):  # heads are never stopped
        raise ConfigError(
            f"points of the search space {compared[0]!r} are compared while they train, because those that fall behind "
            f"are stopped: on one class split, and --split-indices gives {len(request.splits)}. Give one, and sweep "
            "what it finds over the others"
        )
    spaces = {name: points_of(recipe, name, request.num_samples if name in drawn else 0) for name in request.spaces}
    return TrainingInputs.of(
        request.recipes,
        data_dir,
        finetunes_of(recipe, [point for points in spaces.values() for point in points]),
        spaces=spaces,
        stoppable=stoppable_points(recipe, spaces, compared),
        max_seconds=3600 * request.max_hours,
    )


def _plans(request: SweepRequest, inputs: TrainingInputs, session: Session) -> list[SplitPlan]:
    """What is done of each class split. Raises ConfigError where there is nothing to resume."""
    plans = plan_splits(inputs, session.store)
    if request.resume and not has_begun(plans, session.store):
        raise ConfigError(
            f"--resume found nothing of this sweep in {session.store.title}, except perhaps a finished pretraining; "
            "give the storage and the options with which the sweep began, or omit --resume: finished work is reused"
        )
    return plans


def _plan(request: SweepRequest, inputs: TrainingInputs, splits: Sequence[SplitPlan], session: Session) -> Table:
    """The plan, once it is known that there is room for it."""
    with session.measuring():
        costs = measure(splits, session.cluster)
    plan = Plan(splits, costs, plan_photos([inputs], session.store))
    check_disk(plan.disk, session.store)
    lines = plan.cost_lines(plan.times())
    if inputs.max_seconds:
        lines["budget"] = f"{duration(inputs.max_seconds)} of fine-tuning"
    scores = promotion_note(request.recipe)
    first = {"search spaces": in_words(inputs.spaces)} | ({"scores": scores} if scores else {})
    each = f"{sum(map(len, inputs.spaces.values()))} points, the recipe's own and the control, duplicates counted once"
    return plan.table("Plan", first, each, lines)


def _train(request: SweepRequest, inputs: TrainingInputs, session: Session, started: float) -> int:
    spaces, splits = ", ".join(request.spaces), ", ".join(map(str, request.splits))
    seeds = [recipe.seed for recipe in request.recipes]
    decisive = ["sweep", request.spaces, request.splits, seeds]
    run = open_run(session.store, request.title, request.recipe, inputs, decisive, spaces=spaces, split_indices=splits)
    view, settings = f"{request.recipe.name}: {spaces}", request.recipe.data.settings
    follower = session.follow(run)
    with mark_run_failed(follower):
        session.tracking.track(run.save_view, view, inputs.finetunes, settings, len(request.splits))
    results = execute(follower, inputs, [dag], ["trials", REPORTED])
    report = results[REPORTED].path
    session.console.print()
    for table in sweep_tables(read_table(report)):
        session.console.print(table)
    return close(session, report, started, failures_of(results["trials"]), run)
