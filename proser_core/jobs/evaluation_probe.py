"""What the evaluation of a run costs on this machine, measured on random logits before anything long begins."""

import logging
import timeit
from collections.abc import Mapping

import numpy as np

from proser_core.baselines.controls import controls
from proser_core.config import Recipe
from proser_core.data.tasks import TASK_PARTS, OpenSetTask
from proser_core.jobs.random_task import random_task
from proser_core.networks.nets import make_closed_set_net
from proser_core.recognition.embedding_table import INDEX_SIZE
from proser_core.recognition.logit_tables import TRAIN, EmbeddingTable, LogitTable
from proser_core.recognition.scored_network import score_network
from proser_core.recognition.scores import MaxLogit, own_score

SAMPLE = 1_000
"""Images of all parts together, at most, by which the time is measured; it grows with the number that is scored."""


def measure_evaluation(recipe: Recipe, images: Mapping[str, int]) -> float:
    """Seconds of scoring, calibrating and comparing the networks of one class split, with `images` by part; what loads
    their logits and saves the model is not in it."""
    reads, counts = recipe.calibration.reads_embeddings, dict(images)
    if reads:  # all scores are fitted to the images of an index
        counts["train"] = min(counts["train"], INDEX_SIZE)
    share = min(1.0, SAMPLE / sum(counts.values()))
    sample = {part: max(2, round(share * count)) if count else 0 for part, count in counts.items()}
    sample["train"] = max(sample["train"], 2 * recipe.data.num_known)  # OpenMax needs one of each class, a Gaussian two
    task = random_task(recipe, sample, image_size=1)  # logits are random too, not of images
    size = 0
    if reads:
        net = make_closed_set_net(recipe.network, task.num_known, recipe.data.image_size, recipe.seed)
        size = net.backbone.embedding_size
    plain, with_dummies = (_random_tables(task, dummies, size) for dummies in (0, recipe.finetune.num_dummies))
    for name in recipe.calibration.development:
        plain[name], with_dummies[name] = plain["development"], with_dummies["development"]

    def evaluation() -> None:
        choice = score_network(recipe, own_score(recipe), with_dummies, task).choice
        controls(plain, plain, task, recipe.calibration.target_rate)
        for _ in range(2 if choice and choice.suits_plain_networks else 0):  # the pretrained network and the control
            score_network(recipe, MaxLogit(), plain, task)

    logging.disable(logging.WARNING)  # of a score that finds too few images of a class
    try:
        seconds = min(timeit.repeat(evaluation, repeat=2, number=1))
    finally:
        logging.disable(logging.NOTSET)
    scored = [sum(each.values()) - each["train"] for each in (counts, sample)]
    return seconds * scored[0] / scored[1]


def _random_tables(task: OpenSetTask, num_dummies: int, embedding_size: int) -> dict[str, LogitTable]:
    """Random tables by part; half of the known images are right by their largest logit. Without embeddings where their
    size is 0."""
    rng, known = np.random.default_rng(0), task.num_known
    weights, biases = rng.standard_normal((known, embedding_size), np.float32), np.zeros(known, np.float32)
    tables: dict[str, LogitTable] = {}
    for part in TASK_PARTS:
        targets = getattr(task, part).targets
        logits, dummies, embeddings = (
            rng.standard_normal((len(targets), columns), np.float32) for columns in (known, num_dummies, embedding_size)
        )
        right = np.flatnonzero(targets < known)[::2]
        logits[right, targets[right]] += 5.0
        plain = LogitTable(logits, dummies)
        table = EmbeddingTable(logits, dummies, embeddings, weights, biases) if embedding_size else plain
        tables[TRAIN if part == "train" else part] = table
    return tables
