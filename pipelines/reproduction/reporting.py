"""The report of a reproduction: its files, its numbers in MLflow, and what the terminal is told."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.reports.page import HTML, Made, template_digests
from pipelines.reports.sweep_table import mean
from pipelines.reproduction.checking import PreparedStudy
from pipelines.reproduction.protocols import PROTOCOLS, STUDIES
from pipelines.reproduction.report import terminal_table, write_report
from pipelines.reproduction.request import ReproduceRequest
from pipelines.reproduction.results import SplitResult, table_column
from pipelines.reproduction.studies import facts
from pipelines.tracking.runs import ParentRun
from pipelines.workflow.session import Session, close
from pipelines.workflow.stage import stage_code
from proser_core.config import to_json
from proser_core.errors import ProserError


@dataclass(frozen=True)
class ComparedStudy:
    """A study that was trained and compared: its MLflow run, its results, and what failed in it."""

    prepared: PreparedStudy
    run: ParentRun
    results: list[SplitResult]
    failures: list[str]


def report_on(
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
    bf16 = prepared[0].inputs.bf16
    made = Made(request.command, facts(request, prepared, results, skipped, failed, bf16))
    recipes = {study.name: to_json(study.recipes[0]) for study in prepared}
    inputs = {
        "names": request.names,
        "recipes": recipes,
        "families": families,
        "results": [vars(result) for result in results],
        "made": vars(made),
        "code": [stage_code("reproduction"), *template_digests()],
    }

    def build(folder: Path) -> None:
        write_report(request.names, families, results, recipes, made, folder)

    report = session.store.run("reproduction", inputs, build)
    for study in studies:
        metrics = mean_metrics(study.results)
        session.tracking.track(lambda run=study.run, metrics=metrics: run.compared(report, metrics))  # type: ignore[misc]
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
    """Of one study, each metric of each method, and its seconds, as a mean over class splits, by `METHOD/metric`."""
    values: dict[str, list[float]] = {}
    for result in results:
        for metric, value in result.numbers().items():
            values.setdefault(f"{result.method}/{metric}", []).append(value)
    return {name: mean(found) for name, found in values.items()}
