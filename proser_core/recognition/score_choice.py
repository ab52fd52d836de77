"""All scores of one network side by side, and the one that development data chooses."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np

from proser_core.config.calibration import AUTO
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import CalibrationError
from proser_core.naming import look_up
from proser_core.recognition.evaluation import (
    DevelopmentMetrics,
    EvaluationReport,
    Parts,
    development_metrics,
    evaluate_parts,
)
from proser_core.recognition.logit_tables import TRAIN, EmbeddingTable, LogitTable
from proser_core.recognition.scores import FURTHER_SCORES, SCORES, ScoreFunction
from proser_core.recognition.scoring import score
from proser_core.titles import CHOSEN, percent

Tables = Mapping[str, LogitTable]
"""Logits of one network by part."""
NOTHING = LogitTable(np.zeros((0, 0), np.float32), np.zeros((0, 0), np.float32))


@dataclass(frozen=True)
class ScoreReport:
    """One score of a network: its evaluation, the decisions by it, and its metrics on each set of development unknowns
    by name."""

    score: ScoreFunction
    evaluation: EvaluationReport
    parts: Parts
    development: dict[str, DevelopmentMetrics]

    @property
    def mean_macro_f1(self) -> float:
        """Over the sets of development unknowns: what chooses. 0 without any."""
        found = [each.macro_f1 for each in self.development.values() if each.macro_f1 is not None]
        return fmean(found) if found else 0.0


MEAN = "the mean macro-F1 on development data"


def settled(by_development: bool, has_proxy: bool, data: str = "macro-F1 on development data") -> str:
    """Why a score or a network is used: `data` chose it, the proxy used it, or the recipe names it."""
    return f"chosen by {data}" if by_development else "as in the proxy" if has_proxy else "named in advance"


@dataclass(frozen=True)
class ScoreChoice:
    """The scores of one network, its own first, and the one among them that decides: by development data, or by name.
    `failures` are reasons by the name of a score that could not be fitted."""

    reports: tuple[ScoreReport, ...]
    chosen: ScoreReport
    by_development: bool
    failures: dict[str, str]

    @property
    def best(self) -> dict[str, str]:
        """The score with the best macro-F1 on each set of development unknowns."""
        sets = self.chosen.development
        return {each: max(self.reports, key=lambda report: _macro_f1(report, each)).score.name for each in sets}

    @property
    def suits_plain_networks(self) -> bool:
        """Whether a network without dummies can be scored likewise: not by a named score that reads them."""
        return self.by_development or not self.chosen.score.needs_dummies

    @property
    def title(self) -> str:
        """The score in the name of a table's row: `CHOSEN`, or that which was named in advance."""
        return CHOSEN if self.by_development else self.chosen.score.name

    def in_words(self, has_proxy: bool = False) -> str:
        """Which score was chosen, which is the best on each set, and what could not be fitted."""
        why = settled(self.by_development, has_proxy, MEAN)
        found = [f"{self.chosen.score.name}, {why}"]
        for each, name in self.best.items():
            own, best = (percent(_macro_f1(report, each)) for report in (self.chosen, self.report_of(name)))
            found.append(f"{own} on {each}" + ("" if own == best else f" (best: {name}, {best})"))
        found += [f"not fitted: {name} ({reason})" for name, reason in self.failures.items()]
        return "; ".join(found)

    def report_of(self, name: str) -> ScoreReport:
        """The report of the score with this name."""
        return next(each for each in self.reports if each.score.name == name)

    def to_json(self) -> dict[str, Any]:
        """Plain values: the chosen score and whether development data chose it, the best of each set, and development
        metrics and all others by score."""
        scores = {
            each.score.name: {
                "development": {name: asdict(metrics) for name, metrics in each.development.items()},
                "flat": each.evaluation.flat(),
            }
            for each in self.reports
        }
        return {
            "chosen": self.chosen.score.name,
            "title": self.title,
            "by_development": self.by_development,
            "best": self.best,
            "scores": scores,
            "failures": self.failures,
        }


def fitted(kind: type[ScoreFunction], tables: Tables, targets: np.ndarray) -> ScoreFunction:
    """A score of a network, from its tables and the targets int64[N] of the training images, which are among them if
    the score reads these. Raises CalibrationError for images that it cannot be fitted to."""
    if kind.reads_validation:
        return kind.fit(tables["val"], targets[:0])
    return kind.fit(tables[TRAIN], targets) if kind.reads_training else kind.fit(NOTHING, targets[:0])


def candidates(tables: Tables) -> list[type[ScoreFunction]]:
    """Every score that the network has."""
    has_dummies, has_training = tables["val"].dummies.shape[1] > 0, TRAIN in tables
    has_embeddings = isinstance(tables["val"], EmbeddingTable)
    return [
        kind
        for kind in {**SCORES, **FURTHER_SCORES}.values()
        if has_dummies >= kind.needs_dummies
        and has_training >= kind.reads_training
        and has_embeddings >= kind.needs_embeddings
    ]


def choose_score(
    name: str,
    own: ScoreFunction,
    tables: Tables,
    targets: np.ndarray,
    task: OpenSetTask,
    target_rate: float,
    unknown: Tables,
) -> ScoreChoice:
    """Evaluate every score of a network, each calibrated by the same rule, and take the one called `name`.

    auto takes the one with the best mean macro-F1 over the sets of development unknowns in `unknown`, by name; a tie
    goes to `own`, then to the first. `targets` are of the training images in `tables`. Raises CalibrationError where
    the wanted score cannot be fitted, ConfigError for one that the network does not have.
    """
    reports, failures = [_report(own, tables, unknown, task, target_rate)], dict[str, str]()
    for kind in candidates(tables):
        if kind.name == own.name:
            continue
        try:
            reports.append(_report(fitted(kind, tables, targets), tables, unknown, task, target_rate))
        except CalibrationError as error:  # such as a class without a training image
            failures[kind.name] = str(error)
    by_name = {each.score.name: each for each in reports}
    if name in failures:
        raise CalibrationError(failures[name])
    if name == AUTO:
        chosen = max(reports, key=lambda report: report.mean_macro_f1)
    else:
        chosen = look_up("score of this network", name, by_name)
    return ScoreChoice(tuple(reports), chosen, name == AUTO, failures)


def _report(
    function: ScoreFunction, tables: Tables, unknown: Tables, task: OpenSetTask, target_rate: float
) -> ScoreReport:
    evaluation, parts = evaluate_parts(tables, function, task, target_rate)
    targets = np.asarray(task.val.targets)
    development = {
        name: evaluation.development
        if table is tables["development"]
        else development_metrics(parts["val"], targets, score(table, function, evaluation.calibration))
        for name, table in unknown.items()
    }
    return ScoreReport(function, evaluation, parts, development)


def _macro_f1(report: ScoreReport, development: str) -> float:
    return report.development[development].macro_f1 or 0.0
