"""`proser run`: a recipe through every stage, from images to a registered classifier."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rich.console import Console

from pipelines.tracking.server import check_tracking
from pipelines.workflow.checks import CheckedRun
from pipelines.workflow.plan.disk import check_disk
from pipelines.workflow.plan.evaluation import seconds_of_passes
from pipelines.workflow.plan.photos import PhotoPlan, plan_photos
from pipelines.workflow.plan.table import Plan, in_words
from pipelines.workflow.plan.trainings import Costs, SplitPlan, measure, plan_splits
from pipelines.workflow.refit import choose_and_refit, planned_inputs
from pipelines.workflow.requests import RunRequest
from pipelines.workflow.run_stages import finish_run, open_run_of
from pipelines.workflow.session import Session, announce, open_session
from pipelines.workflow.training import TrainingInputs
from proser_core.data.data_sets import open_data_set
from proser_core.jobs.evaluation_probe import measure_evaluation
from proser_core.titles import duration


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
                _print_both_plans(planned_inputs(recipe, num_classes, data_dir, session), session)
                return 0
            return choose_and_refit(recipe, num_classes, data_dir, session, started)
        session.cluster.check()
        if request.dry_run:
            _print_plan("Plan", inputs, session, plan_photos([inputs], session.store), Planned())
            return 0
        return finish_run(inputs, session.follow(open_run_of(session.store, recipe, inputs)), started)


def _print_both_plans(planned: Mapping[str, TrainingInputs], session: Session) -> None:
    """The plans of the proxy and of all classes: what the first measures, decodes and embeds, the second finds."""
    photos, before = plan_photos(planned.values(), session.store), Planned()
    for title, inputs in planned.items():
        before = _print_plan(f"Plan: {title}", inputs, session, photos, before)
        photos = PhotoPlan()
    if len(planned) > 1 and before.seconds:
        session.say(f"Together about {duration(before.seconds)}.")


@dataclass(frozen=True)
class Planned:
    """What plans cost together: each training as it was measured, the images that are embedded, bytes of disk, and
    seconds."""

    costs: Costs = field(default_factory=dict)
    embedded: int = 0
    disk: int = 0
    seconds: float = 0.0


def _print_plan(title: str, inputs: TrainingInputs, session: Session, photos: PhotoPlan, before: Planned) -> Planned:
    """This plan after the one `before`, and what both cost. Raises ClusterError where the cluster cannot train what is
    missing, ConfigError where the disk cannot hold it."""
    splits = [replace(each, embedded_before=before.embedded) for each in plan_splits(inputs, session.store)]
    with session.measuring():
        costs = measure(splits, session.cluster, before.costs)
    plan = Plan(splits, costs, photos)
    disk = before.disk + plan.disk
    check_disk(disk, session.store)
    spaces = in_words(inputs.spaces)
    each = f"{'the points, ' * bool(spaces)}the recipe's own and the control, duplicates counted once"
    times = plan.times({"evaluate": _evaluation_seconds(splits[0], costs)} if costs else {})
    below = plan.cost_lines(times)
    if costs:
        without_ray = all(splits[0].recipe.network.is_frozen(kind) for kind in costs)
        more = "tables and figures" if without_ray else "Ray's start, tables and figures"
        below[""] = f"{more} take some seconds more"
    table = plan.table(title, {"search space": spaces} if spaces else {}, each, below)
    session.console.print(table, highlight=False)
    embedded = before.embedded + sum(each.needs_embeddings for each in splits)
    return Planned(costs, embedded, disk, before.seconds + sum(times.values()))


def _evaluation_seconds(split: SplitPlan, costs: Costs) -> float:
    """Seconds to compare the networks, and for the passes of each over the images where trainings leave too little."""
    networks = 4 if split.recipe.space else 3  # pretrained, control, the selected point, and the recipe's own
    return measure_evaluation(split.recipe, split.images) + seconds_of_passes(split, costs, networks)
