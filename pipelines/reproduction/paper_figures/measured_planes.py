"""What trained networks make of a 2-d plane: decisions on a grid, embeddings of test images and of mixtures."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.reproduction.paper_figures.outlier_examples import examples
from pipelines.reproduction.paper_figures.planes import Decisions, Generated, Grid, Shown
from proser_core.config import MixupPlace, Recipe
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import DataError
from proser_core.networks.nets import ClosedSetNet, PlaceholderNet
from proser_core.recognition.calibration import Calibration, calibrate
from proser_core.recognition.embedding_table import compute_embedding_table
from proser_core.recognition.figure_embeddings import head_logits, mixed_embeddings
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.scores import MaxLogit, MaxSoftmaxProbability, ScoreFunction, own_score
from proser_core.recognition.scoring import score
from proser_core.titles import MAX_LOGIT, MSP, PROSER

SHOWN_KNOWN, SHOWN_NOVEL, SHOWN_GENERATED = 200, 150, 300
"""Dots of each known class, of each novel class, and of mixtures; shares are of all test images, or all these
mixtures."""


@dataclass(frozen=True)
class Trained:
    """A network with a 2-d embedding, the folder of its training, and its logits by part."""

    folder: Path
    net: ClosedSetNet | PlaceholderNet
    logits: Mapping[str, LogitTable]

    def calibrated(self, score_function: ScoreFunction, recipe: Recipe) -> Calibration:
        """A bias from its validation images."""
        return calibrate(score_function(self.logits["val"]), recipe.calibration.target_rate)

    def decisions(self, points: np.ndarray, score_function: ScoreFunction, calibration: Calibration) -> np.ndarray:
        """int64[N] at places float[N, 2] of its plane: 0..K-1, or K for unknown."""
        return score(head_logits(self.net, points), score_function, calibration).predictions


def shown(trained: Trained, task: OpenSetTask) -> Shown:
    """As many test images of each known class, and as many of each novel one, at equal steps through the class."""
    counts = {**dict.fromkeys(task.split.known, SHOWN_KNOWN), **dict.fromkeys(task.split.unknown, SHOWN_NOVEL)}
    classes = np.asarray(task.test_classes)
    rows = np.concatenate([examples(np.flatnonzero(classes == number), count) for number, count in counts.items()])
    assert isinstance(task.test.images, np.ndarray)
    net, normalisation = trained.net, (task.mean, task.std)
    images, device = task.test.images[rows], net.classifier.weight.device
    found = compute_embedding_table(net, images, normalisation, device).embeddings
    targets = np.asarray(task.test.targets)[rows]
    is_known = targets < task.num_known
    novel = {class_title(number): found[classes[rows] == number] for number in task.split.unknown}
    return Shown(known=found[is_known], targets=targets[is_known], novel=novel)


def class_title(number: int) -> str:
    """A novel class as the paper names it."""
    return f"class {number}"


def boundaries(recipe: Recipe, task: OpenSetTask, closed: Trained, tuned: Trained) -> tuple[list[Decisions], Grid]:
    """Two thresholds of the pretrained net and PROSER, calibrated alike, and a plane that holds both networks."""
    of_closed, of_tuned = shown(closed, task), shown(tuned, task)
    grid = Grid.over([*of_closed.clouds, *of_tuned.clouds])
    methods: list[tuple[str, Trained, Shown, ScoreFunction]] = [
        (MSP, closed, of_closed, MaxSoftmaxProbability()),
        (MAX_LOGIT, closed, of_closed, MaxLogit()),
        (PROSER, tuned, of_tuned, own_score(recipe)),
    ]
    return [_decisions(*method, recipe, task, grid) for method in methods], grid


def _decisions(
    name: str,
    trained: Trained,
    found: Shown,
    score_function: ScoreFunction,
    recipe: Recipe,
    task: OpenSetTask,
    grid: Grid,
) -> Decisions:
    calibration = trained.calibrated(score_function, recipe)
    unknown = score(trained.logits["test"], score_function, calibration).predictions == task.num_known
    classes = np.asarray(task.test_classes)
    return Decisions(
        **vars(found),
        method=name,
        regions=trained.decisions(grid.points, score_function, calibration).reshape(len(grid.y), len(grid.x)),
        kept=float((~unknown[np.isin(classes, task.split.known)]).mean()),
        rejected={class_title(number): float(unknown[classes == number].mean()) for number in task.split.unknown},
    )


def generated(recipe: Recipe, task: OpenSetTask, tuned: Mapping[MixupPlace, Trained]) -> tuple[list[Generated], Grid]:
    """What each way of mixing generates, in the plane of the network trained with it, and a plane that holds all of
    it."""
    score_function = own_score(recipe)
    normalisation, ways = (task.mean, task.std), []
    drawn: dict[str, Any] = {"alpha": recipe.finetune.alpha, "seed": recipe.seed, "count": SHOWN_GENERATED}
    for place, trained in tuned.items():
        assert isinstance(trained.net, PlaceholderNet)
        mixtures = mixed_embeddings(trained.net, task.train, normalisation, mixup=place, **drawn)
        if not len(mixtures):
            raise DataError(f"no mixture of two classes can be made of {len(task.train)} images; give more images")
        taken = trained.decisions(mixtures, score_function, trained.calibrated(score_function, recipe)) < task.num_known
        found = vars(shown(trained, task))
        ways.append(Generated(**found, mixup=place, generated=mixtures, in_known_space=float(taken.mean())))
    return ways, Grid.over([cloud for way in ways for cloud in (*way.clouds, way.generated)])
