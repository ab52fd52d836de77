"""Stage evaluate: choose the point and, where a recipe asks for it, the score and the network, on development data; set
PROSER beside its baselines."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from proser_core import titles
from proser_core.baselines.controls import controls, placeholder_scores
from proser_core.config import FinetuneConfig, Recipe
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs import spec
from proser_core.jobs.network_choice import Candidate, NetworkChoice, choose_network, passed_over, trained_control
from proser_core.jobs.network_tables import network_tables, trained_network
from proser_core.jobs.selection import Row, finetune_of, has_point, select
from proser_core.recognition.evaluation import EvaluationReport, evaluate
from proser_core.recognition.logit_tables import LogitTable, load_logits
from proser_core.recognition.score_choice import ScoreChoice
from proser_core.recognition.scored_network import ScoredNetwork, score_network
from proser_core.recognition.scores import MaxLogit, own_score
from proser_core.recognition.validation_scores import Proxy
from proser_core.store.files import read_json, write_json
from proser_core.store.store import Artefact, Store
from proser_core.titles import CONTROL, MAX_LOGIT, OWN_POINT, PRETRAINED, PROSER

EVALUATION, CLASSIFIER, TEST_SCORES = "evaluation.json", "classifier", "test_scores.npz"


def evaluate_run(
    networks: "Networks", pretrained: Artefact, trials: list[Row], proxy: Proxy | None, folder: Path
) -> None:
    """Write the evaluation of every method, and the network that becomes the model as an `OpenSetClassifier`."""
    wanted, selected = networks.recipe.calibration.network, select(trials, networks.recipe.finetune)
    assert selected is not None  # a sweep without any outcome has failed before
    proser = Candidate(selected, networks.scored(selected), PROSER)
    reports, choices, control = _reports(networks, pretrained.path, trials, proser)
    model, network = choose_network(wanted, proser, control)
    chosen = model.scored
    write_json(
        folder / EVALUATION,
        {
            "selected": _trial(model.trial),
            "point": _trial(selected),
            "method": model.method,
            "network": None if network is None else network.in_words(proxy is not None),
            "passed_over": passed_over(wanted, proser, control),
            "methods": {name: report.flat() for name, report in reports.items()},
            "proxy": None if proxy is None else proxy.results,
            "score": {"name": chosen.score.name, "formula": chosen.score.formula},
            "choices": {name: choice.to_json() for name, choice in choices.items()},
        },
    )
    chosen.parts["test"].save(folder / TEST_SCORES)
    others = {name: report.flat() for name, report in reports.items() if name != model.method}
    networks.save_classifier(model.trial, chosen, others, folder, proxy, network)


@dataclass(frozen=True)
class Networks:
    """The networks of one class split, evaluated alike. `store` keeps the embeddings of a recipe that reads them;
    `further` are its further development unknowns."""

    recipe: Recipe
    task: Artefact
    trial_folders: Path
    store: Store | None = None
    further: Artefact | None = None

    @cached_property
    def open_set_task(self) -> OpenSetTask:
        """The images of the class split."""
        return OpenSetTask.load(self.task.path)

    def tables(self, folder: Path, finetune: FinetuneConfig | None = None) -> Mapping[str, LogitTable]:
        """What a training is evaluated by: the logits that it left or, where the calibration needs more,
        `network_tables`."""
        if not self.recipe.calibration.reads_embeddings:
            return load_logits(folder / spec.LOGITS)
        assert self.store is not None
        return network_tables(self.recipe, self.task, folder, finetune, self.store, self.further)

    def trial_tables(self, row: Row) -> Mapping[str, LogitTable]:
        """What a trial is evaluated by."""
        return self.tables(self.trial_folders / row["key"], finetune_of(row))

    def scored(self, row: Row) -> ScoredNetwork:
        """A trial with placeholders by the score that decides."""
        return score_network(self.recipe, own_score(self.recipe), self.trial_tables(row), self.open_set_task)

    def control(self, row: Row, tables: Mapping[str, LogitTable]) -> Candidate:
        """The cross-entropy control, with its `trial_tables`, by the score that decides."""
        scored = score_network(self.recipe, MaxLogit(), tables, self.open_set_task)
        return Candidate(row, scored, titles.scored(CONTROL, scored.choice.title if scored.choice else MAX_LOGIT))

    def save_classifier(
        self,
        row: Row,
        scored: ScoredNetwork,
        others: Mapping[str, Mapping[str, float]],
        folder: Path,
        proxy: Proxy | None = None,
        network: NetworkChoice | None = None,
    ) -> Path:
        """Save a trial with its model card below `folder`; `others` are its baselines' metrics, `network` says why it
        is this one."""
        own = replace(self.recipe, finetune=finetune_of(row))
        weights = self.trial_folders / row["key"] / spec.WEIGHTS
        net = trained_network(own, own.finetune, self.open_set_task.num_known, weights)
        made = scored.classifier(net, self.open_set_task, own, controls=others, proxy=proxy)
        notes = {**made.notes, "Network": network.in_words(proxy is not None)} if network else made.notes
        replace(made, notes=notes).save(folder / CLASSIFIER)
        return folder / CLASSIFIER


def _trial(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("key", "name", "params")}


def _reports(
    networks: Networks, pretrained: Path, rows: list[Row], proser: Candidate
) -> tuple[dict[str, EvaluationReport], dict[str, ScoreChoice], Candidate | None]:
    """Each method of the table: the selected trial and its other scores, the recipe's own point, the baselines; the
    scores of each network, where the recipe asks for a choice; and the control, where it was trained and has the score
    that the recipe names."""
    recipe, task, ours = networks.recipe, networks.open_set_task, proser.scored
    rate, reports = recipe.calibration.target_rate, {PROSER: ours.report}
    finished = (row for row in rows if row["status"] == "finished")
    own = next((row for row in finished if has_point(row, recipe.finetune)), proser.trial)
    if own is not proser.trial:
        reports[OWN_POINT] = networks.scored(own).report
    others = placeholder_scores(ours.score).items()
    reports |= {name: evaluate(ours.tables, each, task, rate) for name, each in others if name != PROSER}
    control = trained_control(rows, recipe.data.split_index, recipe.finetune)
    of_pretrained = networks.tables(pretrained)
    of_control = networks.trial_tables(control) if control else None
    reports |= controls(of_pretrained, of_control, task, rate, ours.targets)
    if ours.choice is not None and not ours.choice.suits_plain_networks:
        return reports, {PROSER: ours.choice}, None
    candidate = networks.control(control, of_control) if control and of_control else None
    if ours.choice is None:
        return reports, {}, candidate
    plain = {PRETRAINED: score_network(recipe, MaxLogit(), of_pretrained, task)}
    plain |= {} if candidate is None else {CONTROL: candidate.scored}
    reports |= {titles.scored(name, ours.choice.title): each.report for name, each in plain.items()}
    choices = {name: each.choice for name, each in {PROSER: ours, **plain}.items() if each.choice}
    return reports, choices, candidate


def read_evaluation(evaluated: Artefact) -> dict[str, Any]:
    """What `evaluate_run` wrote."""
    return read_json(evaluated.path / EVALUATION)
