"""`proser reproduce`: the trainings of one or more protocols over their class splits, then the report."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.carrying import one_process
from pipelines.cluster import Cluster
from pipelines.console import say
from pipelines.context import RunContext
from pipelines.recipes import schedule_note
from pipelines.remote.mirror import mirror_of
from pipelines.reproduction.carried import take_outcomes, write_jobs
from pipelines.reproduction.protocols import PROTOCOLS, STUDIES
from pipelines.reproduction.request import Asked, ReproduceRequest, facts
from pipelines.reproduction.results import Result, block
from pipelines.scaling import largest_cluster
from pipelines.storage_argument import DEFAULT_STORAGE
from pipelines.sweep_table import mean
from pipelines.sweeping import data_of
from pipelines.tracking.server import connect, outages_named, shown_uri
from pipelines.workflow import (
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
from proser_core.config import CalibrationConfig, FinetuneConfig, Recipe, decisive_fields, digest_of, to_json
from proser_core.errors import ConfigError, ProserError, TrainingError
from proser_core.finetunes import STATED
from proser_core.jobs.code_version import code_version
from proser_core.jobs.store import Artefact, Store
from proser_core.naming import look_up
from proser_core.processor import resolve_precision

LAST_STAGE = "compared"


@dataclass(frozen=True)
class _Ready:
    """A study whose images are there, with what decides the data of each class split."""

    asked: Asked
    data: dict[int, dict[str, Any]]

    @property
    def name(self) -> str:
        return self.asked.name

    @property
    def recipes(self) -> list[Recipe]:
        return self.asked.recipes


def reproduce(request: ReproduceRequest, console: Console) -> int:
    """Print the plan, train what is missing of it, and write the report; the exit code as of a run.

    Whatever can be refused is refused before any work: raises ProserError. A study that fails leaves the others to be
    reported, with exit code 1. With `jobs` it is all written down for another machine instead.
    """
    started = time.monotonic()
    request = replace(request, recipe=with_absolute_path(request.recipe))
    _check_carrying(request)
    if request.jobs is not None or request.import_from:
        recipe = one_process(request.recipe, console)
        request = replace(request, recipe=recipe, methods=_carried_methods(request, console))
    finetunes = _finetunes(request)
    where = f"storage {request.storage}, tracking {shown_uri()}"
    console.print(f"{', '.join(request.names)}: {where}", highlight=False, soft_wrap=True)
    spared = request.spared()
    for name, reason in spared.items():
        say(console, f"{name}: not measured: {reason}")
    studies = [_checked(request, name, console) for name in request.studies if name not in spared]
    if request.jobs is not None:
        recipes = [recipe for study in studies for recipe in study.recipes]
        storage = Path(request.storage) if request.with_task else None
        write_jobs(recipes, finetunes, request.data_dir, storage, request.jobs, console)
        return 0
    with opened(request.storage, console, f"proser reproduce {' '.join(request.names)}") as store, outages_named():
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
        done: list[tuple[_Ready, RunContext]] = []
        results: list[Result] = []
        failed: dict[str, TrainingError] = {}
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
            except TrainingError as error:
                failed[study.name] = error
                say(console, f"failed: {study.name}: {error}")
                continue
            done.append((study, context))
        if not done:
            raise next(iter(failed.values()))
        code = _report(request, done, results, spared, failed, started)
        return 1 if failed else code


def _check_carrying(request: ReproduceRequest) -> None:
    """Raises ConfigError for options that exclude each other."""
    given = {
        "--jobs": request.jobs is not None,
        "--with-task": request.with_task,
        "--import-from": bool(request.import_from),
        "--dry-run": request.dry_run,
    }
    for one, other, why in (
        ("--jobs", "--import-from", "the one writes job files, the other takes what came of them"),
        ("--jobs", "--dry-run", "--jobs trains nothing and only writes files"),
        ("--import-from", "--dry-run", "--import-from trains nothing and copies what is finished"),
        ("--import-from", "--with-task", "--with-task is for --jobs"),
    ):
        if given[one] and given[other]:
            raise ConfigError(f"{one} was given with {other}: {why}; leave one of them away")
    if request.with_task and request.jobs is None:
        raise ConfigError("--with-task says what is written beside the job files; give --jobs FOLDER with it")
    if isinstance(request.storage, str) and (request.with_task or request.import_from):
        raise ConfigError(
            f"--storage got {request.storage}; --with-task and --import-from work in a folder, give one (default "
            f"{DEFAULT_STORAGE})"
        )


def _carried_methods(request: ReproduceRequest, console: Console) -> tuple[str, ...]:
    """The methods that are asked for, without those that a job file cannot train, which are said. Raises ConfigError
    where one of these was named."""
    from proser_core.baselines import METHODS

    apart = [name for name in request.method_names() if METHODS[name].train is not None]
    if not apart:
        return request.methods
    why = (
        f"--jobs and --import-from carry a pretraining and its fine-tunes, and {', '.join(apart)} trains a network of "
        "its own"
    )
    if request.methods:
        raise ConfigError(f"{why}; leave it away from --methods")
    say(console, f"left out: {why}")
    return tuple(name for name in METHODS if name not in apart)


def _finetunes(request: ReproduceRequest) -> list[FinetuneConfig]:
    """The fine-tunes that the methods ask for. Raises ConfigError for what cannot be reproduced so."""
    from proser_core.baselines import METHODS
    from proser_core.baselines.tables import finetunes_of_methods

    methods = [look_up("method", name, METHODS) for name in request.methods or METHODS]
    own, plain = request.recipe.finetune, FinetuneConfig()
    for part, names, given, usual in (
        ("finetune", STATED, own, plain),
        ("calibration", ("dummy_weight",), request.recipe.calibration, CalibrationConfig()),
    ):
        for name in names:
            if getattr(given, name) != getattr(usual, name):
                raise ConfigError(
                    f"{part}.{name} is {getattr(given, name)!r}, and every method has its own; leave it away. "
                    "A sweep compares other values"
                )
    for name in request.studies:
        study = STUDIES[name]
        study.check_family(request.family)
        if len(study.splits) == 1 and len(request.split_indices) > 1:
            raise ConfigError(
                f"--split-indices gives {len(request.split_indices)} class splits, and {name} knows every class: there "
                "is one. Give other seeds with --seed, each with its own --storage"
            )
    for column in (column for name in request.names for column in PROTOCOLS[name].columns):
        STUDIES[column.study].check_column(column, request.family_of(STUDIES[column.study]))
    return finetunes_of_methods(own, methods)


def _checked(request: ReproduceRequest, name: str, console: Console) -> _Ready:
    """A study whose images are there. Raises ProserError where they are not."""
    from proser_core.jobs.trials import check_recipe

    asked = request.asked(name)
    first = asked.recipes[0]
    check_recipe(first)
    check_storage(first, request.storage)
    note = schedule_note(first.pretrain, first.data.name)
    if note:
        say(console, f"{name}: {note}")
    try:
        say_defects(first, request.data_dir, console)
        for reason in asked.left_out.values():
            say(console, f"{name}: not measured: {reason}")
        return _Ready(asked, data_of(asked.recipes, request.data_dir))
    except ProserError as error:
        raise type(error)(f"{name}: {error}") from error


def _print_plans(
    request: ReproduceRequest,
    studies: Sequence[_Ready],
    finetunes: Sequence[FinetuneConfig],
    cluster: Cluster,
    store: Store,
    bf16: bool,
    console: Console,
) -> None:
    """Each study's plan. Raises ClusterError where the cluster cannot train what is missing, ConfigError where the disk
    cannot hold all of it."""
    from pipelines import plan

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


def _open_parent(request: ReproduceRequest, study: _Ready, bf16: bool) -> Any:
    """The MLflow run of a study: one for the same recipe, splits and methods, whichever protocol asks for it."""
    from pipelines.tracking.runs import ParentRun

    recipe, splits = study.recipes[0], [recipe.data.split_index for recipe in study.recipes]
    decisive = [study.name, splits, request.method_names(), data_sizes(study.data.values()), bf16]
    run_key = digest_of("reproduce", decisive_fields(recipe), decisive, code_version("pipelines.reproduction.dag"))
    family = request.family_of(STUDIES[study.name])
    params = {**common_params(recipe, bf16), "split_indices": ", ".join(map(str, splits))}
    title = f"reproduce {study.name}" + (f", {family}" if family else "")
    return ParentRun.open(title, run_key, params, {"proser.recipe": study.name})


def _compared(request: ReproduceRequest, study: _Ready, context: RunContext) -> list[Result]:
    from pipelines import sweep_dag
    from pipelines.reproduction import dag
    from pipelines.reproduction.comparing import read_compared

    inputs = {"recipes": study.recipes, "methods": request.method_names(), "context": context}
    compared: Artefact = execute([sweep_dag, dag], [LAST_STAGE], inputs, context)[LAST_STAGE]
    return [
        Result(study=study.name, **{**row, "trained_on": tuple(row["trained_on"])}) for row in read_compared(compared)
    ]


def _report(
    request: ReproduceRequest,
    done: list[tuple[_Ready, RunContext]],
    results: list[Result],
    spared: Iterable[str],
    failed: Mapping[str, TrainingError],
    started: float,
) -> int:
    from pipelines.reproduction.page import HTML, Made, template_digests
    from pipelines.reproduction.report import terminal_table, write_report

    contexts = [context for _, context in done]
    store, families = contexts[0].store, {name: request.family_of(STUDIES[name]) for name in request.studies}
    asked = [study.asked for study, _ in done]
    made = Made(request.command, facts(request, asked, results, spared, failed, contexts[0].bf16))
    recipes = {study.name: to_json(study.recipes[0]) for study, _ in done}
    inputs = {
        "names": request.names,
        "recipes": recipes,
        "families": families,
        "results": [vars(result) for result in results],
        "made": vars(made),
        "code": [code_version("pipelines.reproduction.report"), *template_digests()],
    }

    def build(folder: Path) -> None:
        write_report(request.names, families, results, recipes, made, folder)

    report = store.run("reproduction", inputs, build)
    for study, context in done:
        metrics = mean_metrics([result for result in results if result.study == study.name])
        context.track(lambda context=context, metrics=metrics: context.parent.compared(report, metrics))  # type: ignore[misc]
        context.settle()
    console = contexts[0].console
    console.print()
    for protocol in request.names:
        for column in PROTOCOLS[protocol].columns:
            found = block(column, results, families[column.study])
            if not found.splits:
                say(console, f"{protocol}, {column.title}: not measured")
                continue
            console.print(terminal_table(protocol, found))
            for verdict in found.verdicts:
                say(console, f"  {verdict}")
    say(console, f"Report: {report.path / HTML}")
    close(contexts[0], report.path, time.monotonic() - started)
    for context in contexts[1:]:
        say_what_went_wrong(context)
    return max(exit_code(context) for context in contexts)


def mean_metrics(results: Sequence[Result]) -> dict[str, float]:
    """Of one study, each metric of each method, and its seconds, as a mean over class splits, by `METHOD/metric`."""
    values: dict[str, list[float]] = {}
    for result in results:
        for metric, value in result.numbers().items():
            values.setdefault(f"{result.method}/{metric}", []).append(value)
    return {name: mean(found) for name, found in values.items()}
