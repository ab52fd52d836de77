"""The report of a reproduction: its files, its numbers in MLflow, and what the terminal is told."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pipelines.console import say
from pipelines.reports.sweep_table import mean
from pipelines.reproduction.checking import Ready
from pipelines.reproduction.protocols import PROTOCOLS, STUDIES
from pipelines.reproduction.request import ReproduceRequest, facts
from pipelines.reproduction.results import Result, block
from pipelines.workflow.context import RunContext
from pipelines.workflow.session import close, exit_code, say_what_went_wrong
from proser_core.config import to_json
from proser_core.errors import ProserError
from proser_core.store.code_version import code_version


def report_on(
    request: ReproduceRequest,
    done: list[tuple[Ready, RunContext]],
    results: list[Result],
    spared: Iterable[str],
    failed: Mapping[str, ProserError],
    started: float,
) -> int:
    """Write the report of the studies that are `done`, track their numbers and print both; the exit code."""
    from pipelines.reports.page import HTML, Made, template_digests
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
