"""`ScoredNetwork`: a trained network by the score that decides, evaluated, and as a classifier."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import nn

from proser_core.config import Recipe, to_json
from proser_core.data.mirroring import with_flips
from proser_core.data.tasks import OpenSetTask
from proser_core.recognition.class_report import ClassReport
from proser_core.recognition.embedding_table import index_rows
from proser_core.recognition.evaluation import EvaluationReport, Parts, evaluate_parts
from proser_core.recognition.logit_tables import EmbeddingTable, FittingData
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.score_choice import ScoreChoice, Tables, choose_score
from proser_core.recognition.scores import ScoreFunction
from proser_core.recognition.trained_classifier import Member, OwnArchitecture
from proser_core.recognition.validation_scores import Proxy, ValidationScores


@dataclass(frozen=True)
class ScoredNetwork:
    """A network's tables by part, the score that decides, fitted to them, its evaluation and its decisions. `choice`
    compares all scores, where the recipe asks for one; `targets` are of the training images in the tables."""

    tables: Tables
    targets: np.ndarray
    score: ScoreFunction
    report: EvaluationReport
    parts: Parts
    choice: ScoreChoice | None = None

    @property
    def development_macro_f1(self) -> float:
        """Macro-F1 by the score that decides, over the sets of development unknowns; 0 without any."""
        return self.choice.chosen.mean_macro_f1 if self.choice else self.report.development.macro_f1 or 0.0

    def classifier(
        self,
        net: nn.Module,
        task: OpenSetTask,
        recipe: Recipe,
        *,
        controls: Mapping[str, Mapping[str, float]] | None = None,
        proxy: Proxy | None = None,
        own: OwnArchitecture | None = None,
        members: Sequence[Member] = (),
    ) -> OpenSetClassifier:
        """The network as a classifier, with how its score was chosen and what other scores can be fitted to; it was
        trained on the task by the recipe. The options are fields of `TrainedClassifier`."""
        notes = task.notes if own is not None else with_flips(task.notes, recipe, flip=task.flip)
        return OpenSetClassifier(
            net=net,
            network=recipe.network,
            image_size=recipe.data.image_size,
            split=task.split,
            class_names=task.class_names,
            normalisation=(task.mean, task.std),
            score_function=self.score,
            calibration=self.report.calibration,
            recipe=to_json(recipe),
            results=self.report.flat(),
            validation_scores=ValidationScores.of(self.parts, task),
            proxy=proxy,
            controls={name: dict(metrics) for name, metrics in (controls or {}).items()},
            notes={**notes, "Score": self.choice.in_words(proxy is not None)} if self.choice else notes,
            own=own,
            mirror=recipe.calibration.mirror,
            fitting=self._fitting(),
            classes=ClassReport.of(self.parts["test"], task),
            members=tuple(members),
        )

    def _fitting(self) -> FittingData | None:
        parts = {part: table for part, table in self.tables.items() if isinstance(table, EmbeddingTable)}
        return FittingData({part: parts[part] for part in FittingData.PARTS}, self.targets) if parts else None


def fitting_targets(recipe: Recipe, task: OpenSetTask, tables: Tables) -> np.ndarray:
    """int64[n] of the training images in the tables that a network is evaluated by: all or, with embeddings, those of
    an index."""
    targets = np.asarray(task.train.targets)
    return targets[index_rows(task, recipe.seed)] if isinstance(tables["val"], EmbeddingTable) else targets


def score_network(
    recipe: Recipe, own: ScoreFunction, tables: Tables, task: OpenSetTask, development: str = ""
) -> ScoredNetwork:
    """A network by the score that the recipe names, or that development data chooses; by `own` without either.

    `tables` are logits of a training or, where the recipe needs embeddings, those of `task_embeddings` with a table of
    each set of further development unknowns. `development` names the task's own, by default as the recipe does. Raises
    as `choose_score`.
    """
    calibration, targets = recipe.calibration, fitting_targets(recipe, task, tables)
    if not calibration.score:
        return ScoredNetwork(tables, targets, own, *evaluate_parts(tables, own, task, calibration.target_rate))
    name = development or recipe.data.development
    unknown: Mapping[str, str] = {name: "development"} if len(tables["development"]) else {}
    unknown = {**unknown, **{name: name for name in calibration.development}}
    choice = choose_score(
        calibration.score,
        own,
        tables,
        targets,
        task,
        calibration.target_rate,
        {name: tables[part] for name, part in unknown.items()},
    )
    chosen = choice.chosen
    return ScoredNetwork(tables, targets, chosen.score, chosen.evaluation, chosen.parts, choice)
