"""One sweep: search spaces of a recipe over class splits. Checks and the plan first, then the DAG."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from pipelines.cluster import Cluster
from pipelines.context import RunContext
from pipelines.run import close, common_params, data_sizes, execute, exit_code, opened, with_absolute_path
from pipelines.tracking.server import outages_named, tracking_uri
from proser_core.config import FinetuneConfig, Recipe, decisive_fields, digest_of
from proser_core.errors import ConfigError
from proser_core.jobs.code_version import code_version
from proser_core.jobs.store import Store
from proser_core.processor import resolve_precision

if TYPE_CHECKING:
    from pipelines.tracking.runs import ParentRun

LAST_STAGE = "reported"


@dataclass(frozen=True)
class SweepRequest:
    """What is asked for: spaces by name, class splits by index; `resume` refuses to begin anew."""

    recipe: Recipe
    spaces: tuple[str, ...]
    split_indices: tuple[int, ...]
    data_dir: Path | None
    storage: Path
    resume: bool = False
    dry_run: bool = False

    @property
    def recipes(self) -> list[Recipe]:
        """The recipe on each class split."""
        data = self.recipe.data
        return [replace(self.recipe, data=replace(data, split_index=index)) for index in self.split_indices]


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
    spaces = "+".join(request.spaces)
    console.print(
        f"{request.recipe.name}, {spaces}: storage {request.storage}, tracking {tracking_uri()}",
        highlight=False,
        soft_wrap=True,
    )
    with opened(request.storage, console, f"proser sweep {request.recipe.name} {spaces}") as store, outages_named():
        points, data = _check(request)
        cluster = Cluster(request.recipe.cluster, store.root)
        cluster.check()
        bf16 = resolve_precision(request.recipe)
        finetunes = _finetunes(request.recipe, points)
        _print_plan(request, points, finetunes, data, cluster, store, bf16, console)
        if request.dry_run:
            return 0
        parent = _open_parent(request, data, bf16)
        context = RunContext(store, cluster, parent, console, request.data_dir, data, None, bf16, finetunes, points)
        return _finish(request, context, started)


def _check(request: SweepRequest) -> tuple[dict[str, list[FinetuneConfig]], dict[int, dict[str, Any]]]:
    """Points by space and `prepare_inputs` by split, of a request that can be carried out."""
    from pipelines.stages.sweep import points_of
    from proser_core.jobs.preparing import check_split, prepare_inputs
    from proser_core.jobs.trials import check_recipe

    check_recipe(request.recipe)
    points = {space: points_of(request.recipe, space) for space in request.spaces}
    data = {}
    for recipe in request.recipes:
        check_split(recipe)
        data[recipe.data.split_index] = prepare_inputs(recipe, request.data_dir)
    return points, data


def _finetunes(recipe: Recipe, points: dict[str, list[FinetuneConfig]]) -> list[FinetuneConfig]:
    from pipelines.stages.sweep import finetunes_of

    return finetunes_of(recipe, [point for found in points.values() for point in found])


def _print_plan(
    request: SweepRequest,
    points: dict[str, list[FinetuneConfig]],
    finetunes: Sequence[FinetuneConfig],
    data: dict[int, dict[str, Any]],
    cluster: Cluster,
    store: Store,
    bf16: bool,
    console: Console,
) -> None:
    from pipelines import plan

    plans = [
        plan.plan_split(recipe, data[recipe.data.split_index], finetunes, store, bf16) for recipe in request.recipes
    ]
    begun = any(split.prepared for split in plans)
    if request.resume and not begun:
        raise ConfigError(
            f"--resume found nothing of this sweep in {store.root}; give the storage in which it began, or leave "
            "--resume away to begin"
        )
    costs = plan.measure(plans, cluster, bf16)
    plan.check_disk(plans, costs, store.root)
    console.print(plan.plan_table("Plan", plans, points, plan.cost_lines(plans, costs)), highlight=False)


def _open_parent(request: SweepRequest, data: dict[int, dict[str, Any]], bf16: bool) -> "ParentRun":
    """The MLflow run of this sweep; its key holds the spaces and splits, and whatever decides the outcome."""
    from pipelines.tracking.runs import ParentRun

    recipe = request.recipe
    decisive = [recipe.name, request.spaces, request.split_indices, data_sizes(data.values()), bf16]
    run_key = digest_of("sweep", decisive_fields(recipe), decisive, code_version("pipelines.sweep_dag"))
    spaces, splits = ", ".join(request.spaces), ", ".join(map(str, request.split_indices))
    params = {**common_params(recipe, bf16), "spaces": spaces, "split_indices": splits}
    return ParentRun.open(f"{recipe.name}: {spaces}", run_key, params, {"proser.recipe": recipe.name})


def _finish(request: SweepRequest, context: RunContext, started: float) -> int:
    from pipelines import sweep_dag

    inputs = {"recipes": request.recipes, "context": context}
    results = execute(sweep_dag, [LAST_STAGE], inputs, context)
    context.console.print()
    close(context, results[LAST_STAGE].path, time.monotonic() - started)
    return exit_code(context)
