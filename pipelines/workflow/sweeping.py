"""One sweep: search spaces of a recipe over class splits. Checks and the plan first, then the DAG."""

import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from pipelines.cluster.cluster import Cluster
from pipelines.cluster.scaling import largest_cluster
from pipelines.console import say
from pipelines.storage.mirror import mirror_of, shown
from pipelines.tracking.server import connect, shown_uri, tracking_errors, tracking_uri
from pipelines.workflow.context import RunContext, Search
from pipelines.workflow.session import (
    check_apart,
    check_storage,
    close,
    common_params,
    data_sizes,
    execute,
    exit_code,
    opened,
    say_defects,
    with_absolute_path,
)
from proser_core.config import FinetuneConfig, Recipe, decisive_fields, digest_of
from proser_core.errors import ConfigError
from proser_core.jobs.progress import duration
from proser_core.processor import resolve_precision
from proser_core.store.code_version import code_version
from proser_core.store.store import Store
from tune_spaces import draws_values

if TYPE_CHECKING:
    from pipelines.tracking.runs import ParentRun

LAST_STAGE = "reported"


@dataclass(frozen=True)
class SweepRequest:
    """What is asked for: spaces by name, class splits by index; `resume` refuses to begin anew.

    Spaces with random draws are searched: `num_samples` points each. `max_hours` is the budget of the
    fine-tunes, 0 for no limit.
    """

    recipe: Recipe
    spaces: tuple[str, ...]
    split_indices: tuple[int, ...]
    data_dir: Path | None
    storage: Path | str
    cluster_file: Path | None = None
    num_samples: int = 32
    max_hours: float = 0.0
    resume: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.max_hours) and self.max_hours >= 0):
            raise ConfigError(f"--max-hours is {self.max_hours:g}; need hours, 0 for no limit")
        if self.num_samples < 1:
            raise ConfigError(f"--num-samples is {self.num_samples}; need at least 1 point of a search")

    @property
    def recipes(self) -> list[Recipe]:
        """The recipe on each class split."""
        data = self.recipe.data
        return [replace(self.recipe, data=replace(data, split_index=index)) for index in self.split_indices]

    @property
    def title(self) -> str:
        """The sweep in a few words."""
        return f"{self.recipe.name}, {' + '.join(self.spaces)}"


@dataclass(frozen=True)
class Points:
    """The fine-tunes of a sweep: all of them, by space, and with which budget."""

    finetunes: list[FinetuneConfig]
    spaces: dict[str, list[FinetuneConfig]]
    search: Search


def parse_indices(text: str) -> tuple[int, ...]:
    """Class splits from "0-4" or "0,2,5-7". Raises ConfigError for anything else."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise ConfigError(f"--split-indices got {text!r}; need numbers and ranges, such as 0-4 or 0,2,5")
        found += range(first, last + 1)
    return tuple(dict.fromkeys(found))


def sweep(request: SweepRequest, console: Console) -> int:
    """Print the plan, then train and report what is missing of it; the exit code as of a run.

    Whatever can be refused is refused before any work: raises ProserError.
    """
    started = time.monotonic()
    request = replace(request, recipe=with_absolute_path(request.recipe))
    check_storage(request.recipe, request.storage)
    check_apart(request.recipe, request.data_dir, request.storage)
    say(console, f"{request.title}: storage {request.storage}, tracking {shown_uri()}")
    say_defects(request.recipe, request.data_dir, console)
    points, data = _points(request), data_of(request.recipes, request.data_dir)
    with opened(request.storage, console, f"proser sweep {request.title}") as store, tracking_errors():
        bf16 = resolve_precision(request.recipe)
        stops_trials, grows_to = points.search != Search(), largest_cluster(request.cluster_file)
        cluster = Cluster(request.recipe.cluster, store.root, stops_trials, grows_to, mirror=mirror_of(store))
        cluster.check()
        if not request.dry_run:
            connect()
        console.print(_plan(request, points, data, cluster, store, bf16), highlight=False)
        if request.dry_run:
            return 0
        parent = _open_parent(request, data, bf16)
        context = RunContext(
            store,
            cluster,
            parent,
            console,
            request.data_dir,
            data,
            None,
            bf16,
            points.finetunes,
            points.spaces,
            search=points.search,
        )
        return _finish(request, context, started)


def _points(request: SweepRequest) -> Points:
    """Every point of the spaces. Raises ConfigError for what cannot be swept."""
    from pipelines.workflow.stages.finetune import finetunes_of, points_of, sampled_points
    from proser_core.jobs.trials import check_recipe

    recipe = request.recipe
    check_recipe(recipe)
    if not (recipe.data.settings and recipe.data.has_development):
        raise ConfigError(
            f"data.unknown_settings is {recipe.data.unknown_settings} and data.development {recipe.data.development}; "
            "a sweep compares points on unknown classes: give both, or data.outliers and the second"
        )
    drawn = [name for name in request.spaces if draws_values(name)]
    if drawn:
        _check_search(request, drawn[0])
    spaces = {
        name: sampled_points(recipe, name, request.num_samples) if name in drawn else points_of(recipe, name)
        for name in request.spaces
    }
    finetunes = finetunes_of(recipe, [point for points in spaces.values() for point in points])
    kept = {finetunes[0], finetunes[1], *(point for name in spaces if name not in drawn for point in spaces[name])}
    searched = tuple(point for name in drawn for point in spaces[name] if point not in kept)
    return Points(finetunes, spaces, Search(3600 * request.max_hours, searched))


def _check_search(request: SweepRequest, space: str) -> None:
    """A search compares its trials while they train: on one class split, with one process each."""
    if len(request.split_indices) > 1:
        raise ConfigError(
            f"search space {space!r} draws at random, and its points are compared on one class split; "
            f"--split-indices gives {len(request.split_indices)}. Give one, and sweep what it finds over the others"
        )
    if request.recipe.cluster.num_workers > 1:
        raise ConfigError(
            f"search space {space!r} draws at random, and its trials are scored while they train, each by its own "
            f"worker; cluster.num_workers is {request.recipe.cluster.num_workers}, set it to 1"
        )


def data_of(recipes: Sequence[Recipe], data_dir: Path | None) -> dict[int, dict[str, Any]]:
    """What decides the data of each class split. Raises ProserError where it cannot be made."""
    from proser_core.jobs.preparing import check_split, prepare_inputs

    data = {}
    for recipe in recipes:
        check_split(recipe, data_dir)
        data[recipe.data.split_index] = prepare_inputs(recipe, data_dir)
    return data


def _plan(
    request: SweepRequest, points: Points, data: dict[int, dict[str, Any]], cluster: Cluster, store: Store, bf16: bool
) -> Table:
    """The plan, once it is known that there is room for it."""
    from pipelines.workflow import plan

    plans = plan.plan_splits(request.recipes, request.data_dir, data, points.finetunes, store, bf16)
    if request.resume and not any(split.prepared for split in plans):
        raise ConfigError(
            f"--resume found nothing of this sweep in {shown(store)}; give the storage in which it began, or leave "
            "--resume away to begin"
        )
    costs = plan.costs_of(plans, cluster, store, bf16)
    lines = plan.cost_lines(plans, costs)
    if points.search.points:
        lines["time"] += f" at most: {len(points.search.points)} points may be stopped early"
    if points.search.max_seconds:
        lines["budget"] = f"{duration(points.search.max_seconds)} of fine-tuning"
    spaces = ", ".join(f"{name} ({len(found)} points)" for name, found in points.spaces.items())
    each = f"{sum(map(len, points.spaces.values()))} points, the recipe's own and the control, equal ones once"
    return plan.plan_table("Plan", plans, {"search spaces": spaces}, each, lines)


def _open_parent(request: SweepRequest, data: dict[int, dict[str, Any]], bf16: bool) -> "ParentRun":
    """The MLflow run of this sweep; its key holds the spaces and splits, and whatever decides the outcome."""
    from pipelines.tracking.runs import ParentRun

    recipe = request.recipe
    decisive = [
        recipe.name,
        request.spaces,
        request.num_samples,
        request.split_indices,
        data_sizes(data.values()),
        bf16,
    ]
    run_key = digest_of("sweep", decisive_fields(recipe), decisive, code_version("pipelines.workflow.sweep_dag"))
    splits = ", ".join(map(str, request.split_indices))
    params = {**common_params(recipe, bf16), "spaces": ", ".join(request.spaces), "split_indices": splits}
    return ParentRun.open(request.title, run_key, params, {"proser.recipe": recipe.name})


def _finish(request: SweepRequest, context: RunContext, started: float) -> int:
    from pipelines.reports.sweep_summary import sweep_tables
    from pipelines.reports.sweep_table import read_table
    from pipelines.workflow import sweep_dag

    inputs = {"recipes": request.recipes, "context": context}
    name = f"{request.recipe.name}: {', '.join(request.spaces)}"
    context.track(lambda: context.parent.save_view(name, context.finetunes, request.recipe.data.settings))
    results = execute([sweep_dag], [LAST_STAGE], inputs, context)
    context.console.print()
    for table in sweep_tables(read_table(results[LAST_STAGE].path)):
        context.console.print(table)
    once = "" if tracking_uri().startswith("http") else " (once `proser ui` runs)"
    context.say(f"Trials in the MLflow UI{once}: {context.parent.link()}")
    close(context, results[LAST_STAGE].path, time.monotonic() - started)
    return exit_code(context)
