"""A run of one recipe: its DAG executed, its closing table printed, and where its model is."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.reports.scores_page import choice_facts
from pipelines.reports.sweep_table import read_table
from pipelines.reports.terminal import run_tables
from pipelines.storage.storage import Storage
from pipelines.tracking.runs import ParentRun
from pipelines.workflow import dag
from pipelines.workflow.session import TrainingSession, close, execute, mark_run_failed, open_run
from pipelines.workflow.stages.evaluate import read_evaluation
from pipelines.workflow.stages.trial_rows import failures_of
from pipelines.workflow.training import TrainingInputs
from proser_core.config import Recipe
from proser_core.digests import sha256_of
from proser_core.recognition.validation_scores import Proxy
from proser_core.titles import first_names, percent, scored

REPORTED, REGISTERED = "logged", "registered"
"""Last nodes of a run that only reports, and of one that registers a model."""

POOR = 0.6  # AUROC
FOR_PHOTOS = "folder-pretrained"


def open_run_of(store: Storage, recipe: Recipe, inputs: TrainingInputs, more: Sequence[Any] = ()) -> ParentRun:
    """The MLflow run of this recipe in this storage, and whatever `more` decides its outcome."""
    decisive = [sha256_of(inputs.pretrained_file) if inputs.pretrained_file else "", *more]
    shown = {"space": recipe.space, "split_index": recipe.data.split_index}
    return open_run(store, recipe.name, recipe, inputs, decisive, **shown)


def run_and_report(inputs: TrainingInputs, session: TrainingSession, last: str = REPORTED) -> dict[str, Any]:
    """The DAG as far as `last`, and the closing table printed; results of `last` and of what the table is made of."""
    targets, recipe = dict.fromkeys(["trials", "evaluated", REPORTED, last]), inputs.recipes[0]
    with mark_run_failed(session):
        session.tracking.track(session.run.save_view, recipe.name, inputs.finetunes, recipe.data.settings)
    results = execute(session, inputs, [dag], targets)
    session.console.print()
    for table in run_tables(read_table(results[REPORTED].path)):
        session.console.print(table)
    evaluation = read_evaluation(results["evaluated"])
    if recipe.data.has_development:
        points = [each for each in inputs.finetunes if each.objective == "proser"]
        how = "Selected on development data" if len(points) > 1 else "The only point"
        session.say(f"{how}: {evaluation['point']['name']}")
    for fact in choice_facts(evaluation):
        session.say(fact)
    return results


def run_and_register(inputs: TrainingInputs, session: TrainingSession, started: float) -> int:
    """Run the DAG as far as the model, and say where everything is; the exit code is 1 where a trial failed or tracking
    was lost."""
    results = run_and_report(inputs, session, REGISTERED)
    if inputs.proxy is not None:
        _say_detection(session, inputs.proxy, inputs.recipes[0])
    if (model := results[REGISTERED]) is not None:
        method = _method(read_evaluation(results["evaluated"]))
        session.say(f"Model: {model.in_words(method)}")
        session.say(f"Try it: proser serve models:/{model.name}/{model.version}")
        if step := model.next_step():
            session.say(step)
    return close(session, results[REPORTED].path, started, failures_of(results["trials"]), session.run)


def _say_detection(session: TrainingSession, proxy: Proxy, recipe: Recipe) -> None:
    """How well a model that knows every class will detect unknown images, which its own table cannot say."""
    known, area = proxy.validation_scores.is_known, proxy.metrics()["auroc"]
    count, unknown = int(known.sum()), int((~known).sum())
    held_out = first_names(proxy.chose)
    session.say(f"Unknown images, measured by the proxy with {held_out} held out: AUROC {percent(area)} %")
    if detects_by_chance(area, count, unknown):
        few = f"{count} known and {unknown} unknown images are too few to tell that from chance"
        why = "that is near chance: expect the model to miss most of them" if area < POOR else few
        trained = "finetune" if recipe.finetune.start == "scratch" else "pretrain"
        other = "" if recipe.name == FOR_PHOTOS else f", or use the recipe {FOR_PHOTOS}"
        session.say(f"  {why}. Give more images or more --{trained}.epochs{other}")


def detects_by_chance(area: float, known: int, unknown: int) -> bool:
    """Whether random scores of so many images would reach this AUROC, within two standard errors (Mann and Whitney
    1947)."""
    return area < 0.5 + 2 * math.sqrt((known + unknown + 1) / (12 * known * unknown))


def _method(evaluation: Mapping[str, Any]) -> str:
    """The row of the closing table that became the model, with its score, which some rows are named by."""
    method, score = evaluation["method"], evaluation["score"]["name"]
    return str(method) if method.endswith(f", {score}") else scored(method, score)
