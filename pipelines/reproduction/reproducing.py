"""`proser reproduce`: the trainings of one or more protocols over their class splits, then the report."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.cluster.cluster import Cluster
from pipelines.cluster.scaling import largest_cluster
from pipelines.console import say
from pipelines.reproduction.checking import Ready, carried_methods, check_carrying, checked, finetunes_asked_for
from pipelines.reproduction.offline_jobs import take_outcomes, write_jobs
from pipelines.reproduction.protocols import STUDIES
from pipelines.reproduction.reporting import report_on
from pipelines.reproduction.request import ReproduceRequest
from pipelines.reproduction.results import Result
from pipelines.storage.mirror import mirror_of
from pipelines.tracking.server import connect, shown_uri, tracking_errors
from pipelines.workflow.context import RunContext
from pipelines.workflow.offline_jobs import one_process
from pipelines.workflow.session import common_params, data_sizes, execute, opened, with_absolute_path
from proser_core.config import FinetuneConfig, decisive_fields, digest_of
from proser_core.errors import DataError, ProserError, TrainingError
from proser_core.processor import resolve_precision
from proser_core.store.code_version import code_version
from proser_core.store.store import Artefact, Store

LAST_STAGE = "compared"


def reproduce(request: ReproduceRequest, console: Console) -> int:
    """Print the plan, train what is missing of it, and write the report; the exit code as of a run.

    Whatever can be refused is refused before any work: raises ProserError. A study that fails leaves the others to be
    reported, with exit code 1. With `jobs` it is all written down for another machine instead.
    """
    started = time.monotonic()
    request = replace(request, recipe=with_absolute_path(request.recipe))
    check_carrying(request)
    if request.jobs is not None or request.import_from:
        recipe = one_process(request.recipe, console)
        request = replace(request, recipe=recipe, methods=carried_methods(request, console))
    finetunes = finetunes_asked_for(request)
    say(console, f"{', '.join(request.names)}: storage {request.storage}, tracking {shown_uri()}")
    spared = request.spared()
    for name, reason in spared.items():
        say(console, f"{name}: not measured: {reason}")
    studies = [checked(request, name, console) for name in request.studies if name not in spared]
    if request.jobs is not None:
        recipes = [recipe for study in studies for recipe in study.recipes]
        storage = Path(request.storage) if request.with_task else None
        write_jobs(recipes, finetunes, request.data_dir, storage, request.jobs, console)
        return 0
    with opened(request.storage, console, f"proser reproduce {' '.join(request.names)}") as store, tracking_errors():
        bf16 = resolve_precision(request.recipe)
        grows_to = largest_cluster(request.cluster_file)
        cluster = Cluster(request.recipe.cluster, store.root, grows_to=grows_to, mirror=mirror_of(store))
        if not request.dry_run:
            connect()
        if request.import_from:
            wanted = [(recipe, study.data[recipe.data.split_index]) for study in studies for recipe in study.recipes]
            take_outcomes(request.import_from, wanted, finetunes, request.data_dir, store, bf16, console)
        else:
            _print_plans(request, studies, finetunes, cluster, store, bf16, console)
        if request.dry_run:
            return 0
        done: list[tuple[Ready, RunContext]] = []
        results: list[Result] = []
        failed: dict[str, ProserError] = {}
        for study in studies:
            parent = _open_parent(request, study, bf16)
            context = RunContext(
                store,
                cluster,
                parent,
                console,
                request.data_dir,
                study.data,
                None,
                bf16,
                finetunes,
                trains=not request.import_from,
            )
            try:
                results += _compared(request, study, context)
            except (TrainingError, DataError) as error:
                failed[study.name] = error
                say(console, f"failed: {study.name}: {error}")
                continue
            done.append((study, context))
        if not done:
            raise next(iter(failed.values()))
        code = report_on(request, done, results, spared, failed, started)
        return 1 if failed else code


def _print_plans(
    request: ReproduceRequest,
    studies: Sequence[Ready],
    finetunes: Sequence[FinetuneConfig],
    cluster: Cluster,
    store: Store,
    bf16: bool,
    console: Console,
) -> None:
    """Each study's plan. Raises ClusterError where the cluster cannot train what is missing, ConfigError where the disk
    cannot hold all of it."""
    from pipelines.workflow import plan

    planned = [
        plan.plan_splits(study.recipes, request.data_dir, study.data, finetunes, store, bf16) for study in studies
    ]
    if any(split.missing or not split.pretrained for plans in planned for split in plans):
        cluster.check()
    needed = 0
    for study, plans in zip(studies, planned, strict=True):
        costs = plan.measure(plans, cluster, bf16)
        needed += plan.disk_needed(plans, costs)
        data = study.recipes[0].data
        first = {
            "classes": f"{data.num_known} known; test settings {', '.join(map(str, data.settings))}",
            "methods": ", ".join(request.method_names()),
        }
        lines = plan.cost_lines(plans, costs)
        console.print(
            plan.plan_table(f"Plan: {study.name}", plans, first, "those of the methods", lines), highlight=False
        )
    plan.check_disk(needed, store)


def _open_parent(request: ReproduceRequest, study: Ready, bf16: bool) -> Any:
    """The MLflow run of a study: one for the same recipe, splits and methods, whichever protocol asks for it."""
    from pipelines.tracking.runs import ParentRun

    recipe, splits = study.recipes[0], [recipe.data.split_index for recipe in study.recipes]
    decisive = [study.name, splits, request.method_names(), data_sizes(study.data.values()), bf16]
    run_key = digest_of("reproduce", decisive_fields(recipe), decisive, code_version("pipelines.reproduction.dag"))
    family = request.family_of(STUDIES[study.name])
    params = {**common_params(recipe, bf16), "split_indices": ", ".join(map(str, splits))}
    title = f"reproduce {study.name}" + (f", {family}" if family else "")
    return ParentRun.open(title, run_key, params, {"proser.recipe": study.name})


def _compared(request: ReproduceRequest, study: Ready, context: RunContext) -> list[Result]:
    from pipelines.reproduction import dag
    from pipelines.reproduction.comparing import read_compared
    from pipelines.workflow import sweep_dag

    inputs = {"recipes": study.recipes, "methods": request.method_names(), "context": context}
    compared: Artefact = execute([sweep_dag, dag], [LAST_STAGE], inputs, context)[LAST_STAGE]
    return [
        Result(study=study.name, **{**row, "trained_on": tuple(row["trained_on"])}) for row in read_compared(compared)
    ]
