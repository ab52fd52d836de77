"""Early stopping of a search: each trial's network is scored after every epoch, on development data alone, and
asynchronous successive halving (Li et al. 2020) stops the trials that fall behind.

Scores are stored with the trial's checkpoint, so that a resumed trial can report them again.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from ray import tune
from ray.tune.schedulers import ASHAScheduler

from proser_core.config import Recipe, from_json
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs.spec import SCORES, SELECTION_METRIC, STATE, Job, read_scores
from proser_core.learning.objectives import ProserObjective
from proser_core.networks.nets import add_placeholders, make_closed_set_net
from proser_core.recognition.calibration import calibrate
from proser_core.recognition.logits import compute_logits
from proser_core.recognition.metrics import open_set_macro_f1
from proser_core.recognition.scores import own_score
from proser_core.recognition.scoring import score
from proser_core.store.files import write_atomically
from proser_core.store.store import load_if_complete

TIME = "epochs"
SHARE = "percent_of_epochs"
"""The scheduler's time: points of one sweep may differ in their number of epochs, and so in their learning rates."""


def early_stopping(rivals: Iterable[Path] = ()) -> Any:
    """Tune's scheduler: one trial in three continues after a fifth of its own epochs, and again after three fifths. It
    knows the scores of those `rivals`, folders of trials, that have finished before."""
    scheduler = ASHAScheduler(SHARE, SELECTION_METRIC, "max", max_t=100, grace_period=20, reduction_factor=3)
    for folder in rivals:
        if load_if_complete(folder) is None:
            continue
        finished: Any = SimpleNamespace(trial_id=f"finished {folder.name}")  # of a trial it reads no more
        scheduler.on_trial_add(None, finished)
        rows = read_scores(folder)
        for row in rows[:-1]:
            scheduler.on_trial_result(None, finished, with_share(row, rows[-1][TIME]))
    return scheduler


def report_score(row: dict[str, float], epochs: float) -> None:
    """Report a row of `EpochScorer.score` to Tune, which may end the trial; not after the last of its epochs, when it
    has yet to write its outcome."""
    if row[TIME] < epochs:
        tune.report(with_share(row, epochs))


def with_share(row: dict[str, float], epochs: float) -> dict[str, float]:
    """A row of `EpochScorer.score` of a trial of so many epochs, with the scheduler's time."""
    return {**row, SHARE: 100.0 * row[TIME] / epochs}


class EpochScorer:
    """Scores the network in a job's last checkpoint, without test images."""

    def __init__(self, job: Job) -> None:
        self._folder, self._task = Path(job.folder), OpenSetTask.load(Path(job.task))
        recipe: Recipe = from_json(Recipe, job.recipe)
        closed_set = make_closed_set_net(recipe.network, recipe.data.num_known, recipe.data.image_size, recipe.seed)
        net = add_placeholders(closed_set, recipe.finetune.num_dummies, recipe.seed)
        self._objective = ProserObjective(net, recipe.finetune, recipe.seed)
        self._score_function = own_score(recipe)
        self._target_rate = recipe.calibration.target_rate
        self._device = torch.device("cuda" if recipe.cluster.uses_gpu else "cpu")

    def score(self) -> dict[str, float]:
        """Macro-F1 on validation images and development unknowns after the last epoch, durable before it returns."""
        state = torch.load(self._folder / STATE, map_location=self._device, weights_only=True)
        self._objective.load_state_dict({**state["objective"], **state["average"]})  # as after the last epoch
        row = {TIME: state["epoch"] + 1.0, SELECTION_METRIC: self._macro_f1()}
        rows = [old for old in read_scores(self._folder) if old[TIME] < row[TIME]]
        lines = [json.dumps(each) for each in [*rows, row]]
        write_atomically(self._folder / SCORES, "\n".join(lines).encode())
        return row

    def _macro_f1(self) -> float:
        task, normalisation = self._task, (self._task.mean, self._task.std)
        tables = [
            compute_logits(self._objective.net, part.images, normalisation, self._device)
            for part in (task.val, task.development)
        ]
        calibration = calibrate(self._score_function(tables[0]), self._target_rate)
        predictions = [score(table, self._score_function, calibration).predictions for table in tables]
        targets = [task.val.targets, task.development.targets]
        return open_set_macro_f1(np.concatenate(predictions), np.concatenate(targets), task.num_known)
