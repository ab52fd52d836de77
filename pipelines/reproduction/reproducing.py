"""`proser reproduce`: the trainings of one or more protocols over their class splits, then the report."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console
from rich.table import Table

from pipelines.cluster import Cluster
from pipelines.console import say
from pipelines.context import RunContext
from pipelines.remote.mirror import mirror_of
from pipelines.reproduction.protocols import PROTOCOLS, STUDIES
from pipelines.reproduction.request import ReproduceRequest, facts
from pipelines.reproduction.results import Result, block
from pipelines.run import (
    check_storage,
    close,
    common_params,
    data_sizes,
    execute,
    exit_code,
    opened,
    say_defects,
    say_what_went_wrong,
    with_absolute_path,
)
from pipelines.scaling import largest_cluster
from pipelines.sweep_table import mean
from pipelines.sweeping import data_of
from pipelines.tracking.server import connect, outages_named, shown_uri
from proser_core.config import FinetuneConfig, Recipe, decisive_fields, digest_of
from proser_core.errors import ConfigError, ProserError
from proser_core.jobs.code_version import code_version
from proser_core.jobs.store import Artefact, Store
from proser_core.naming import look_up
from proser_core.processor import resolve_precision

LAST_STAGE = "compared"


@dataclass(frozen=True)
class _Studied:
    """A study that is ready to be trained."""

    name: str
    recipes: list[Recipe]
    data: dict[int, dict[str, Any]]


def reproduce(request: ReproduceRequest, console: Console) -> int:
    """Print the plan, train what is missing of it, and write the report; the exit code as of a run.

    Whatever can be refused is refused before any work: raises ProserError.
    """
    started = time.monotonic()
    request = replace(request, recipe=with_absolute_path(request.recipe))
    finetunes = _finetunes(request)
    where = f"storage {request.storage}, tracking {shown_uri()}"
    console.print(f"{', '.join(request.names)}: {where}", highlight=False, soft_wrap=True)
    studied = [_checked(request, name, console) for name in request.studies]
    with opened(request.storage, console, f"proser reproduce {' '.join(request.names)}") as store, outages_named():
        bf16 = resolve_precision(request.recipe)
        grows_to = largest_cluster(request.cluster_file)
        cluster = Cluster(request.recipe.cluster, store.root, grows_to=grows_to, mirror=mirror_of(store))
        cluster.check()
        if not request.dry_run:
            connect()
        for each in studied:
            console.print(_plan(request, each, finetunes, cluster, store, bf16), highlight=False)
        if request.dry_run:
            return 0
        contexts, results = [], []
        for each in studied:
            parent = _open_parent(request, each, bf16)
            context = RunContext(store, cluster, parent, console, request.data_dir, each.data, None, bf16, finetunes)
            results += _compared(request, each, context)
            contexts.append(context)
        return _report(request, results, contexts, started)


def _finetunes(request: ReproduceRequest) -> list[FinetuneConfig]:
    """The fine-tunes that the methods ask for. Raises ConfigError for what cannot be reproduced so."""
    from proser_core.baselines import METHODS
    from proser_core.baselines.tables import finetunes_of_methods
    from proser_core.jobs.trials import check_recipe

    for name in request.studies:
        study = STUDIES[name]
        study.check_family(request.family)
        if len(study.splits) == 1 and len(request.split_indices) > 1:
            raise ConfigError(
                f"--split-indices gives {len(request.split_indices)} class splits, and {name} knows every class: there "
                "is one. Give other seeds with --seed, each with its own --storage"
            )
    methods = [look_up("method", name, METHODS) for name in request.methods or METHODS]
    for recipe in (recipe for name in request.studies for recipe in request.recipes_of(name)):
        check_recipe(recipe)
    return finetunes_of_methods(request.recipe.finetune, methods)


def _checked(request: ReproduceRequest, name: str, console: Console) -> _Studied:
    """A study whose images are there. Raises ProserError where they are not."""
    recipes = request.recipes_of(name)
    check_storage(recipes[0], request.storage)
    say_defects(recipes[0], request.data_dir, console)
    if left := request.left_out(name):
        say(console, f"{name}: not measured, because its images are not there: {', '.join(left)}; see proser list")
    try:
        return _Studied(name, recipes, data_of(recipes, request.data_dir))
    except ProserError as error:
        raise type(error)(f"{name}: {error}") from error


def _plan(
    request: ReproduceRequest,
    studied: _Studied,
    finetunes: Sequence[FinetuneConfig],
    cluster: Cluster,
    store: Store,
    bf16: bool,
) -> Table:
    from pipelines import plan

    plans = plan.plan_splits(studied.recipes, request.data_dir, studied.data, finetunes, store, bf16)
    costs = plan.costs_of(plans, cluster, store, bf16)
    data = studied.recipes[0].data
    test = ", ".join(map(str, data.outliers or data.unknown_settings))
    first = {"classes": f"{data.num_known} known; test settings {test}", "methods": ", ".join(request.method_names())}
    return plan.plan_table(f"Plan: {studied.name}", plans, first, "those of the methods", plan.cost_lines(plans, costs))


def _open_parent(request: ReproduceRequest, studied: _Studied, bf16: bool) -> Any:
    """The MLflow run of a study: one for the same recipe, splits and methods, whichever protocol asks for it."""
    from pipelines.tracking.runs import ParentRun

    recipe, splits = studied.recipes[0], [recipe.data.split_index for recipe in studied.recipes]
    decisive = [studied.name, splits, request.method_names(), data_sizes(studied.data.values()), bf16]
    run_key = digest_of("reproduce", decisive_fields(recipe), decisive, code_version("pipelines.reproduction.dag"))
    family = request.family_of(STUDIES[studied.name])
    params = {**common_params(recipe, bf16), "split_indices": ", ".join(map(str, splits))}
    title = f"reproduce {studied.name}" + (f", {family}" if family else "")
    return ParentRun.open(title, run_key, params, {"proser.recipe": studied.name})


def _compared(request: ReproduceRequest, studied: _Studied, context: RunContext) -> list[Result]:
    from pipelines import sweep_dag
    from pipelines.reproduction import dag
    from pipelines.reproduction.comparing import read_compared

    inputs = {"recipes": studied.recipes, "methods": request.method_names(), "context": context}
    compared: Artefact = execute([sweep_dag, dag], [LAST_STAGE], inputs, context)[LAST_STAGE]
    return [Result(study=studied.name, **row) for row in read_compared(compared)]


def _report(request: ReproduceRequest, results: list[Result], contexts: list[RunContext], started: float) -> int:
    from pipelines.reproduction.report import HTML, Made, terminal_table, write_report

    store, families = contexts[0].store, {name: request.family_of(STUDIES[name]) for name in request.studies}
    made = Made(request.command, facts(request, results, contexts[0].bf16))
    inputs = {
        "names": request.names,
        "families": families,
        "results": [vars(result) for result in results],
        "made": vars(made),
        "code": code_version("pipelines.reproduction.report"),
    }
    report = store.run(
        "reproduction", inputs, lambda folder: write_report(request.names, families, results, made, folder)
    )
    for name, context in zip(request.studies, contexts, strict=True):
        metrics = mean_metrics([result for result in results if result.study == name])
        context.track(lambda context=context, metrics=metrics: context.parent.compared(report, metrics))  # type: ignore[misc]
        context.settle()
    console = contexts[0].console
    console.print()
    for protocol in request.names:
        for column in PROTOCOLS[protocol].columns:
            found = block(column, results, families[column.study])
            console.print(terminal_table(protocol, found))
            for verdict in found.verdicts:
                say(console, f"  {verdict}")
    say(console, f"Report: {report.path / HTML}")
    close(contexts[0], report.path, time.monotonic() - started)
    for context in contexts[1:]:
        say_what_went_wrong(context)
    return max(exit_code(context) for context in contexts)


def mean_metrics(results: Sequence[Result]) -> dict[str, float]:
    """Of one study, each metric of each method as its mean over class splits, by `METHOD/metric`."""
    values: dict[str, list[float]] = {}
    for result in results:
        for metric, value in result.metrics.items():
            values.setdefault(f"{result.method}/{metric}", []).append(value)
    return {name: mean(found) for name, found in values.items()}
