"""`proser reproduce`: the trainings of one or more protocols over their class splits, then the report."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from pipelines.console import say
from pipelines.reports.page import HTML, Made, template_digests
from pipelines.reports.sweep_table import mean
from pipelines.reproduction import dag
from pipelines.reproduction.comparing import read_compared
from pipelines.reproduction.offline_studies import check_options, take_outcomes, write_jobs
from pipelines.reproduction.own_network_outcomes import read_outcomes
from pipelines.reproduction.protocols import PROTOCOLS, STUDIES
from pipelines.reproduction.report import terminal_table, write_report
from pipelines.reproduction.request import ReproduceRequest
from pipelines.reproduction.results import SplitResult, table_column
from pipelines.reproduction.studies import (
    PreparedStudy,
    check_reproducible,
    facts,
    method_names,
    network_names,
    own_methods,
    prepare_study,
    resolve,
    skipped_studies,
)
from pipelines.tracking.runs import ParentRun, slug
from pipelines.tracking.server import check_tracking, shown_uri
from pipelines.workflow import dag as workflow_dag
from pipelines.workflow.checks import decide_precision, for_workers
from pipelines.workflow.offline_jobs import one_process
from pipelines.workflow.plan.own_networks import MissingNetwork, measure_networks, missing_networks
from pipelines.workflow.plan.table import Plan, check_disk
from pipelines.workflow.plan.trainings import SplitPlan, measure, plan_splits
from pipelines.workflow.session import Session, close, execute, open_run, open_session
from pipelines.workflow.stage import stage_code
from pipelines.workflow.stages.trial_rows import failures_of
from proser_core.config import to_json
from proser_core.errors import DataError, ProserError, TrainingError


@dataclass(frozen=True)
class ComparedStudy:
    """A study that was trained and compared: its MLflow run, its results, and what failed in it."""

    prepared: PreparedStudy
    run: ParentRun
    results: list[SplitResult]
    failures: list[str]


def reproduce(request: ReproduceRequest, console: Console) -> int:
    """Print the plan, train what is missing, and write the report, or job files with `jobs`; the exit code as of a run,
    1 where a study fails. Raises ProserError before any work for whatever can be refused."""
    started = time.monotonic()
    recipe = for_workers(request.recipe)  # job files are for the hardware of another machine
    request = replace(request, recipe=recipe if request.jobs is not None else decide_precision(recipe))
    check_options(request)
    if request.jobs is not None or request.import_from:
        request = replace(request, recipe=one_process(request.recipe, console))
    check_reproducible(request)
    say(console, f"{', '.join(request.names)}: storage {request.storage}, tracking {shown_uri()}")
    resolved = [resolve(request, name) for name in request.studies]
    skipped = skipped_studies(request, resolved)
    for name, reason in skipped.items():
        say(console, f"{name}: not measured: {reason}")
    studies = [prepare_study(request, each, console) for each in resolved if each.name not in skipped]
    if request.jobs is not None:
        storage = Path(request.storage) if request.with_task else None
        trainings = [study.inputs for study in studies]
        write_jobs(trainings, storage, request.jobs, own_methods(request), console)
        return 0
    work = f"proser reproduce {' '.join(request.names)}"
    cluster, cluster_file = request.recipe.cluster, request.cluster_file
    with open_session(
        cluster, request.storage, console, work, cluster_file=cluster_file, compares_times=True
    ) as session:
        check_tracking(dry_run=request.dry_run)
        if request.import_from:
            inputs = [study.inputs for study in studies]
            take_outcomes(request.import_from, inputs, session.store, console, own_methods(request))
        else:
            _print_plans(request, studies, session)
        return 0 if request.dry_run else _train(request, studies, skipped, session, started)


def _train(
    request: ReproduceRequest,
    studies: Sequence[PreparedStudy],
    skipped: Mapping[str, str],
    session: Session,
    started: float,
) -> int:
    """Train and compare study by study, then report those that did not fail."""
    done: list[ComparedStudy] = []
    failed: dict[str, ProserError] = {}
    for study in studies:
        try:
            done.append(_compared(request, study, session))
        except (TrainingError, DataError) as error:
            failed[study.name] = error
            session.say(f"failed: {study.name}: {error}")
    if not done:
        raise next(iter(failed.values()))
    code = _report(request, done, skipped, failed, session, started)
    return 1 if failed else code


def _print_plans(request: ReproduceRequest, studies: Sequence[PreparedStudy], session: Session) -> None:
    """Raises ClusterError where the cluster cannot train what is missing, ConfigError where the disk cannot hold it."""
    planned = {study.name: plan_splits(study.inputs, session.store) for study in studies}
    missing = {
        study.name: missing_networks(own_methods(request), study.inputs, planned[study.name], session.store)
        for study in studies
    }
    trains = any(split.missing or not split.pretrained for plans in planned.values() for split in plans)
    if trains or any(missing.values()):
        session.cluster.check()
    needed = 0
    for study in studies:
        needed += _print_plan(request, study, planned[study.name], missing[study.name], session)
    check_disk(needed, session.store)


def _print_plan(
    request: ReproduceRequest,
    study: PreparedStudy,
    splits: Sequence[SplitPlan],
    missing: Sequence[MissingNetwork],
    session: Session,
) -> int:
    """Measure and print what a study costs; the bytes that it needs."""
    data = study.recipes[0].data
    with session.measuring():
        costs = measure(splits, session.cluster)
        networks_plan = measure_networks(missing, request.schedule, study.recipes[0], session.cluster)
    plan = Plan(splits, costs)
    first = {
        "classes": f"{data.num_known} known; test settings {', '.join(map(str, data.settings))}",
        "methods": "; ".join(method_names(request)),
    }
    networks = 1 + len(study.inputs.finetunes)  # of each class split, the pretrained one first
    passes = plan.seconds_of_passes(networks)
    # not: nothing to train
    lines = plan.cost_lines(plan.times({"compare": passes} if passes else {})) if costs or not missing else {}
    table = plan.table(f"Plan: {study.name}", first, "those of the methods", lines | networks_plan.lines())
    session.console.print(table, highlight=False)
    return plan.disk + networks_plan.disk


def _compared(request: ReproduceRequest, study: PreparedStudy, session: Session) -> ComparedStudy:
    """Train a study and compare its methods, in one MLflow run for the same recipe, splits and methods, whichever
    protocol asks for them."""
    splits = [recipe.data.split_index for recipe in study.recipes]
    family, methods = request.family_of(STUDIES[study.name]), method_names(request)
    title = f"reproduce {study.name}" + (f", {family}" if family else "")
    asked = {"networks": network_names(request), "own_networks": request.schedule}
    decisive = ["reproduce", study.name, splits, methods, *([request.schedule] if asked["networks"] else [])]
    shown = {"split_indices": ", ".join(map(str, splits))}
    run = open_run(session.store, title, study.recipes[0], study.inputs, decisive, **shown)
    follower = session.follow(run, trains=not request.import_from)
    results = execute(
        follower,
        study.inputs,
        [workflow_dag, dag],
        ["trials", "compared", "methods_registered"],
        **asked,
        methods=methods,
        register=list(request.register),
    )
    rows, failures = read_compared(results["compared"])
    measured = [SplitResult(study=study.name, **{**row, "trained_on": tuple(row["trained_on"])}) for row in rows]
    return ComparedStudy(study, run, measured, [*failures_of(results["trials"]), *failures])


def _report(
    request: ReproduceRequest,
    studies: Sequence[ComparedStudy],
    skipped: Iterable[str],
    failed: Mapping[str, ProserError],
    session: Session,
    started: float,
) -> int:
    """Write the report of the studies, track their numbers and print both; the exit code."""
    results = [result for study in studies for result in study.results]
    families = {name: request.family_of(STUDIES[name]) for name in request.studies}
    prepared = [study.prepared for study in studies]
    made = Made(request.command, facts(request, prepared, results, skipped, failed))
    recipes = {study.name: [to_json(recipe) for recipe in study.recipes] for study in prepared}
    inputs = {
        "names": request.names,
        "recipes": recipes,
        "families": families,
        "results": [vars(result) for result in results],
        "made": vars(made),
        "templates": template_digests(),
        "code": stage_code("reproduction"),
    }

    def build(folder: Path) -> None:
        outcomes = read_outcomes(results, session.store.root)
        write_report(request.names, families, results, recipes, made, folder, outcomes)

    report = session.store.run("reproduction", inputs, build)
    for study in studies:
        session.tracking.track(study.run.report, report, mean_metrics(study.results))
    session.tracking.settle()
    session.console.print()
    _print_columns(request, results, families, session)
    session.say(f"Report: {report.path / HTML}")
    return close(session, report.path, started, [failure for study in studies for failure in study.failures])


def _print_columns(
    request: ReproduceRequest, results: list[SplitResult], families: dict[str, str], session: Session
) -> None:
    for protocol in request.names:
        for column in PROTOCOLS[protocol].columns:
            found = table_column(column, results, families[column.study])
            if not found.splits:
                session.say(f"{protocol}, {column.title}: not measured")
                continue
            session.console.print(terminal_table(protocol, found))
            for verdict in found.verdicts:
                session.say(f"  {verdict}")


def mean_metrics(results: Sequence[SplitResult]) -> dict[str, float]:
    """Means of a study over class splits, by `method/metric`: each metric of each method, and its seconds."""
    values: dict[str, list[float]] = {}
    for result in results:
        for metric, value in result.numbers().items():
            values.setdefault(f"{slug(result.method)}/{metric}", []).append(value)
    return {name: mean(found) for name, found in values.items()}
