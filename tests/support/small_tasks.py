"""Small real parts that several tests put together: a net, a task, a classifier."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from proser_core.config import DataConfig, FinetuneConfig, NetworkConfig, Recipe, to_json
from proser_core.data.augmentation.batches import TrainingBatches
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.tasks import Labelled, OpenSetTask
from proser_core.networks.backbone import Backbone
from proser_core.networks.ensembles import EnsembleNet
from proser_core.networks.nets import ClosedSetNet, PlaceholderNet, add_placeholders, make_closed_set_net
from proser_core.recognition.calibration import calibrate
from proser_core.recognition.embedding_table import compute_embedding_table
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.logits import compute_logits
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scores import FURTHER_SCORES, SCORES

CPU = torch.device("cpu")
NORMALISATION = ((0.5, 0.4, 0.3), (0.25, 0.2, 0.3))
SIZE = 8


def tiny_backbone(dropout: float = 0.0) -> Backbone:
    first = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU())
    second = nn.Sequential(
        nn.Dropout2d(dropout),
        nn.Conv2d(6, 10, 3, stride=2, padding=1),
        nn.BatchNorm2d(10),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return Backbone({"first": first, "second": second}, 10, {"middle": "first"})


def tiny_closed_set_net(num_known: int = 3, dropout: float = 0.0, seed: int = 0) -> ClosedSetNet:
    torch.manual_seed(seed)
    return ClosedSetNet(tiny_backbone(dropout), num_known)


def tiny_net(num_known: int = 3, num_dummies: int = 2, dropout: float = 0.0, seed: int = 0) -> PlaceholderNet:
    return add_placeholders(tiny_closed_set_net(num_known, dropout, seed), num_dummies, seed)


def random_images(count: int, size: int = SIZE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


def labelled(count: int, num_known: int = 3, seed: int = 0) -> Labelled:
    return Labelled(random_images(count, seed=seed), np.arange(count) % num_known)


def batches_of(
    images: Labelled, batch_size: int = 8, *, padding=2, flip=True, normalisation=NORMALISATION, **more
) -> TrainingBatches:
    """Batches of a fine-tune on the CPU, but for what `more` says."""
    config = DataConfig(image_size=SIZE, padding=padding, flip=flip)
    given = {"batch_size": batch_size, "seed": 0, "purpose": "finetune", "device": CPU} | more
    return TrainingBatches(images, config, normalisation, **given)


def training_batches(count: int = 40, batch_size: int = 8, num_known: int = 3, **more) -> TrainingBatches:
    return batches_of(labelled(count, num_known), batch_size, **more)


def finetune_config(**values) -> FinetuneConfig:
    return FinetuneConfig(**({"epochs": 3, "batch_size": 8, "lr": 0.01, "num_dummies": 2} | values))


def small_task() -> OpenSetTask:
    """Four classes of random images: 4 and 1 are known, 3 and 0 unknown."""
    split = ClassSplit(known=(4, 1), unknown=(3, 0), settings=(1, 2))
    test_classes = np.array([4, 1, 3, 0] * 3)
    return OpenSetTask(
        split=split,
        class_names=("dog", "cat"),
        train=labelled(12, 2, seed=1),
        val=labelled(6, 2, seed=2),
        development=Labelled(random_images(6, seed=3), np.full(6, 2)),
        test=Labelled(random_images(12, seed=4), np.array([0, 1, 2, 2] * 3)),
        test_classes=test_classes,
        mean=(0.5, 0.4, 0.3),
        std=(0.25, 0.2, 0.3),
    )


def digits_config(**values) -> DataConfig:
    defaults = {
        "name": "digits",
        "image_size": 8,
        "num_known": 5,
        "unknown_settings": (1, 3),
        "development": "held-out-2",
        "padding": 1,
    }
    return DataConfig(**(defaults | values))


def loaded_again(task: OpenSetTask, folder: Path, expected: OpenSetTask) -> OpenSetTask:
    """The task from files, which is the expected one; its images may have stayed encoded."""
    task.save(folder)
    loaded = OpenSetTask.load(folder)
    for name in ("split", "class_names", "mean", "std"):
        assert getattr(loaded, name) == getattr(expected, name)
    for name in ("train", "val", "development", "test"):
        before, after = getattr(expected, name), getattr(loaded, name)
        images = after.images if isinstance(after.images, np.ndarray) else after.images.read(np.arange(len(after)))
        np.testing.assert_array_equal(images, before.images)
        np.testing.assert_array_equal(after.targets, before.targets)
    np.testing.assert_array_equal(loaded.test_classes, expected.test_classes)
    return loaded


def make_classifier(score: str = "gap", *, mirror: bool = False, members: int = 1) -> OpenSetClassifier:
    """A classifier32 with fresh weights and any score, which is fitted and calibrated on random images; or an ensemble
    of so many, with 2, 3, ... dummies."""
    network, images, kind = NetworkConfig(), random_images(40, seed=9), {**SCORES, **FURTHER_SCORES}[score]
    closed_set = make_closed_set_net(network, 3, SIZE, seed=1)
    net = add_placeholders(closed_set, num_dummies=2, seed=1) if kind.needs_dummies else closed_set
    if members > 1:
        closed = [make_closed_set_net(network, 3, SIZE, seed=1 + number) for number in range(members)]
        net = EnsembleNet([add_placeholders(each, 2 + number, seed=1) for number, each in enumerate(closed)])
    if kind.needs_embeddings or mirror:
        logits: LogitTable = compute_embedding_table(net, images, NORMALISATION, CPU, mirror=mirror)
    else:
        logits = compute_logits(net, images, NORMALISATION, CPU)
    score_function = kind.fit(logits, np.arange(40) % 3)
    return OpenSetClassifier(
        net=net,
        network=network,
        image_size=SIZE,
        split=ClassSplit(known=(5, 0, 2), unknown=(1, 3), settings=(1, 2)),
        class_names=("ant", "bee", "cow"),
        normalisation=NORMALISATION,
        score_function=score_function,
        calibration=calibrate(score_function(logits), 0.8),
        recipe=to_json(Recipe(name="test")),
        mirror=mirror,
    )


def bit_equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
