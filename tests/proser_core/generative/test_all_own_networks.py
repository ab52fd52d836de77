"""What holds for every network of a method's own: rows, finite numbers, the same bytes again, resumption."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_networks import BLUR, NEAREST
from safetensors.torch import load_file
from small_tasks import CPU, bit_equal, random_images
from training_jobs import StoppedError

from proser_core.baselines.method import Method
from proser_core.config import ClusterConfig, DataConfig, Recipe
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.tasks import Labelled, OpenSetTask
from proser_core.errors import ConfigError
from proser_core.generative import osrci
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.generative.own_network import Schedule, TaskShape
from proser_core.jobs.any_job import run_any
from proser_core.jobs.in_memory import train
from proser_core.jobs.own_networks.plans import OwnPlan, in_order, plan_network
from proser_core.jobs.own_networks.spec import job_of
from proser_core.jobs.own_networks.worker import FACTS, PICTURES
from proser_core.jobs.spec import EPOCHS, LOGITS, WEIGHTS, read_epochs
from proser_core.recognition.logit_tables import load_logits
from proser_core.recognition.logits import compute_logits, task_logits
from proser_core.recognition.scores import MaxLogit
from proser_core.store.files import read_json
from proser_core.store.store import MANIFEST, Store, write_manifest

SIZE, KNOWN, PER_CLASS = 16, 2, 8
NAMES = [*OWN_NETWORKS, "Nearest (mean), plain"]
SCORED = [name for name in NAMES if name == "Nearest (mean), plain" or OWN_NETWORKS[name].scores_images]
SMALL = {
    "epochs": 2,
    "batch_size": 8,
    "channels": (4, 4, 4),
    "convolutions": (1, 1, 1),
    "hidden": 8,
    "width": 8,
    "autoencoder_width": 8,
    "least_steps": 2,
    "most_steps": 2,
    "generated": 8,
    "least_share": 0.0,  # after so few steps no search ends open
    "dropout": 0.2,  # whose draws a training that goes on must not lose
}
"""Of a schedule, the fields that make it small, where it has them."""


def shrunk(schedule: Schedule) -> Any:
    there = {field.name for field in fields(schedule)}
    return replace(schedule, **{name: value for name, value in SMALL.items() if name in there})


@pytest.fixture(scope="module", autouse=True)
def small_networks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for network in (BLUR, NEAREST, *OWN_NETWORKS.values()):
            small = replace(network, schedules={name: shrunk(each) for name, each in network.schedules.items()})
            patch.setitem(OWN_NETWORKS, network.name, small)
        patch.setattr(osrci, "DISTANCE_WEIGHTS", (1.0,))
        patch.setattr(osrci, "search", partial(osrci.search, num_steps=3))
        yield


def task_of(development: int = 4, swap: bool = False) -> OpenSetTask:
    """Two classes of dark and of bright images, and one between them; `swap` turns the test images around."""

    def labelled(count: int, seed: int, targets: np.ndarray) -> Labelled:
        images = random_images(count, SIZE, seed) // 2 + (targets * 60).astype(np.uint8)[:, None, None, None]
        return Labelled(images, targets)

    test = labelled(6, 3, np.array([0, 1, 0, 1, 2, 2]))
    if swap:
        test = Labelled(test.images[::-1].copy(), test.targets[::-1].copy())
    return OpenSetTask(
        split=ClassSplit(known=(0, 1), unknown=(2,), settings=(1,)),
        class_names=("dark", "bright"),
        train=labelled(KNOWN * PER_CLASS, 1, np.arange(KNOWN * PER_CLASS) % KNOWN),
        val=labelled(4, 2, np.arange(4) % KNOWN),
        development=labelled(development, 4, np.full(development, 2)),
        test=test,
        test_classes=test.targets,
        mean=(0.5, 0.4, 0.3),
        std=(0.25, 0.2, 0.3),
    )


RECIPE = Recipe(
    precision="fp32",
    data=DataConfig(name="digits", image_size=SIZE, num_known=KNOWN, unknown_settings=(1,), padding=1),
    cluster=ClusterConfig(),
)


class Machine:
    """A storage, the task in it, and what was trained there, an epoch after another."""

    def __init__(self, root: Path, task: OpenSetTask) -> None:
        task.save(root / "task")
        self.store, self.task = Store(root / "storage"), write_manifest(root / "task", {})
        self.epochs = 0

    def plan(self, name: str, recipe: Recipe = RECIPE) -> OwnPlan:
        return plan_network(OWN_NETWORKS[name], "quick", recipe, self.task, self.store)

    def train(self, name: str, stop_after: int = 0) -> Path:
        """Folder of the network, trained after all that it needs; with `stop_after`, stopped after so many epochs."""
        for plan in in_order([self.plan(name)]):
            if plan.outcome() is None:
                run_any(plan.job(), self._notify(stop_after))
        return self.plan(name).folder

    def _notify(self, stop_after: int) -> Callable[[object], None]:
        def notify(metrics: object) -> None:
            self.epochs += 1
            if self.epochs == stop_after:
                raise StoppedError

        return notify


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """On which each network is trained once, for all tests that read it."""
    return Machine(tmp_path_factory.mktemp("one"), task_of())


def contents(folder: Path) -> dict[str, bytes]:
    """Of all files but the manifest, which has times."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST}


@pytest.mark.parametrize("name", NAMES)
def test_weights_facts_and_finite_logits_of_every_image_are_left_and_nothing_else(name: str, machine: Machine) -> None:
    folder = machine.train(name)
    left = {path.name for path in folder.iterdir()}
    assert left - {PICTURES} == {WEIGHTS, FACTS, EPOCHS, MANIFEST} | ({LOGITS} if name in SCORED else set())
    assert len(read_epochs(folder)) == 2
    assert read_json(folder / FACTS) is not None
    if PICTURES in left:
        with np.load(folder / PICTURES) as pictures:
            assert all(each.dtype == np.uint8 and each.ndim == 5 and each.shape[-1] == 3 for each in pictures.values())
    if name in SCORED:
        tables = load_logits(folder / LOGITS)
        assert {part: len(table) for part, table in tables.items()} == {
            "val": 4,
            "development": 4,
            "test": 6,
            "train": KNOWN * PER_CLASS,
        }
        for table in tables.values():
            assert table.known.shape[1] == KNOWN
            assert table.known.dtype == table.dummies.dtype == np.float32
            assert np.isfinite(table.known).all()
            assert np.isfinite(table.dummies).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bytes_and_so_does_a_training_that_was_stopped(
    name: str, machine: Machine, tmp_path: Path
) -> None:
    folder, plans, other = machine.train(name), in_order([machine.plan(name)]), Machine(tmp_path, task_of())
    for epoch in range(1, 2 * len(plans)):  # after each epoch of each network
        with pytest.raises(StoppedError):
            other.train(name, stop_after=epoch)
    other.train(name)
    assert other.epochs == 2 * len(plans)  # none was trained twice
    assert contents(other.plan(name).folder) == contents(folder)


@pytest.mark.parametrize("name", SCORED)
def test_trained_in_memory_it_has_the_weights_of_a_job_and_an_image_its_logits_whatever_is_tested_beside_it(
    name: str, machine: Machine
) -> None:
    folder, turned = machine.train(name), task_of(development=0, swap=True)
    net = train(turned, RECIPE, Method("any", "here", MaxLogit(), network=name)).net
    assert bit_equal(net.state_dict(), load_file(folder / WEIGHTS))
    ahead = load_logits(folder / LOGITS)["test"]
    found = compute_logits(net, turned.test.images, (turned.mean, turned.std), CPU)
    np.testing.assert_allclose(found.known[::-1], ahead.known, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.dummies[::-1], ahead.dummies, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_a_network_is_restored_from_its_weights_alone_and_has_its_logits(name: str, machine: Machine) -> None:
    folder, network, task = machine.train(name), OWN_NETWORKS[name], task_of()
    restored = network.restored(TaskShape(KNOWN, SIZE), network.schedules["quick"], folder / WEIGHTS)
    assert bit_equal(restored.state_dict(), load_file(folder / WEIGHTS))
    assert not restored.training
    if name in SCORED:
        found, kept = task_logits(restored, task, CPU, with_training=False), load_logits(folder / LOGITS)
        for part, table in found.items():
            np.testing.assert_array_equal(table.known, kept[part].known)
            np.testing.assert_array_equal(table.dummies, kept[part].dummies)


def test_a_class_without_training_images_is_refused_by_name(tmp_path: Path) -> None:
    task = task_of()
    dark = task.train.targets == 0
    machine = Machine(tmp_path, replace(task, train=Labelled(task.train.images[dark], task.train.targets[dark])))
    with pytest.raises(ConfigError, match=r"^blur needs training images of each known class, and .* none of bright"):
        machine.train("blur")


def test_a_job_is_the_same_after_a_journey_as_plain_values(machine: Machine) -> None:
    job = machine.plan("Nearest (mean), plain").job()
    assert job_of(job.to_json()) == job
    assert set(job.parts) == {"blur"}
