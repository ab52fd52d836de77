"""The plan of a run, printed: of one training, or of the proxy and of all classes after it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pipelines.workflow.plan.photos import PhotoPlan, plan_photos
from pipelines.workflow.plan.table import Plan, check_disk, in_words
from pipelines.workflow.plan.trainings import Costs, measure, plan_splits
from pipelines.workflow.session import Session
from pipelines.workflow.training import TrainingInputs
from proser_core.jobs.evaluation_probe import measure_evaluation
from proser_core.titles import duration


@dataclass(frozen=True)
class _Planned:
    """What plans cost together: each training as it was measured, the images that are embedded, bytes of disk, and
    seconds."""

    costs: Costs = field(default_factory=dict)
    embedded: int = 0
    disk: int = 0
    seconds: float = 0.0


def print_plans(planned: Mapping[str, TrainingInputs], session: Session) -> None:
    """Print the plans of a run's trainings by name, "" for that of a single one: what the first measures, decodes and
    embeds, the second finds. Raises as `_print_plan`."""
    photos, before = plan_photos(planned.values(), session.store), _Planned()
    for name, inputs in planned.items():
        before = _print_plan(f"Plan: {name}" if name else "Plan", inputs, session, photos, before)
        photos = PhotoPlan()
    if len(planned) > 1 and before.seconds:
        session.say(f"Together about {duration(before.seconds)}.")


def _print_plan(title: str, inputs: TrainingInputs, session: Session, photos: PhotoPlan, before: _Planned) -> _Planned:
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
    times = plan.times({"evaluate": _evaluation_seconds(plan)} if costs else {})
    below = plan.cost_lines(times)
    if costs:
        without_ray = all(splits[0].recipe.network.is_frozen(kind) for kind in costs)
        more = "tables and figures" if without_ray else "Ray's start, tables and figures"
        below[""] = f"{more} take some seconds more"
    table = plan.table(title, {"search space": spaces} if spaces else {}, each, below)
    session.console.print(table, highlight=False)
    embedded = before.embedded + sum(each.needs_embeddings for each in splits)
    return _Planned(costs, embedded, disk, before.seconds + sum(times.values()))


def _evaluation_seconds(plan: Plan) -> float:
    """Seconds to compare the networks, and for the passes of each over the images where trainings leave too little."""
    recipe, images = plan.splits[0].recipe, plan.splits[0].images
    networks = 4 if recipe.space else 3  # pretrained, control, the selected point, and the recipe's own
    return measure_evaluation(recipe, images) + plan.seconds_of_passes(networks)
