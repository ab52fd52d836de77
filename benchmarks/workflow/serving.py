"""`proser serve`, alone and with replicas, against `mlflow models serve` under the same load.

The alias also moves while clients are served.
"""

import io
import os
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Cell, Report, Table, Target
from benchmarks.harness.timing import spread
from benchmarks.workflow.servers import Load, Server, load_on, mlflow_server, our_server, running
from pipelines.recipes import cifar100_cpu
from pipelines.tracking.registry import register
from pipelines.tracking.runs import run_of_its_own
from pipelines.tracking.server import connect
from pipelines.tracking.versions import CHAMPION
from proser_core.config import to_json
from proser_core.data.splits.class_split import ClassSplit
from proser_core.jobs.probe import NORMALISATION
from proser_core.networks.nets import add_placeholders, make_closed_set_net
from proser_core.recognition.calibration import Calibration
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scores import MaxLogit
from proser_core.titles import counted

NAME, NUM_CLASSES, NUM_DUMMIES = "served", 15, 5
URI = f"models:/{NAME}@{CHAMPION}"
CLIENTS = (1, 8, 32)
PROCESSES = (1, 2)  # workers of MLflow's server, and replicas of ours
MOVED_WITH = 8  # clients while the alias moves
IMAGES = 64


def run(settings: Settings) -> Report:
    """Both servers up, the same load on each in turn; the tracking server is as before afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with mock.patch.dict(os.environ, MLFLOW_TRACKING_URI=f"sqlite:///{place}/mlflow.db"):
            return _run(settings, place)


def _run(settings: Settings, folder: Path) -> Report:
    requests, rounds = (40, 1) if settings.quick else (400, 5)
    second = _register(folder, settings)
    files = _files(settings)
    ours, theirs = ([make(URI, files, count) for count in PROCESSES] for make in (our_server, mlflow_server))
    servers = [*ours, *theirs]
    with ExitStack() as stack:
        for server in servers:
            stack.enter_context(running(server, folder))
            load_on(server, 8, requests // 4)  # warm
        found: dict[tuple[str, int], list[Load]] = {(s.name, n): [] for n in CLIENTS for s in servers}
        for clients in CLIENTS:
            for _ in range(rounds):
                for server in servers:  # in turn: what else the machine does meets all of them
                    found[server.name, clients].append(load_on(server, clients, _enough(requests, clients)))
        moved = load_on(ours[0], MOVED_WITH, 2 * requests, lambda: _move(second))
    before, after = (moved.versions.count(version) for version in ("1", second))
    notes = (
        f"{rounds} rounds of {requests} requests, {_enough(requests, 1)} of one client, each of one PNG of "
        f"{settings.image_size} pixels, servers and client on the same cores.",
        f"Alias moved in mid-load, {MOVED_WITH} clients: {before} answers by the version before, {after} by the one "
        f"after, {moved.failed} failed, p99 {moved.milliseconds(99):.0f} ms.",
    )
    lost = sum(load.failed for loads in found.values() for load in loads) + moved.failed
    ratios, targets = _ratios(found, ours, theirs)
    targets.append(Target("requests that failed, with the alias moved in mid-load", float(lost), 0.0, False, ""))
    ratio_columns = ("times as fast as", *(counted(clients, "client") for clients in CLIENTS))
    return Report([_table(found, notes), Table("Ratios", ratio_columns, ratios)], targets)


def _table(found: dict[tuple[str, int], list[Load]], notes: tuple[str, ...]) -> Table:
    """Rate, latency and failures of each server at each number of clients."""
    rows: list[tuple[Cell, ...]] = []
    for (name, clients), loads in found.items():
        rates = spread([load.rate for load in loads])
        latencies = [spread([load.milliseconds(percentile) for load in loads])[0] for percentile in (50, 99)]
        rows.append((name, clients, *rates, *latencies, sum(load.failed for load in loads)))
    columns = ("server", "clients", "images/s", "q1", "q3", "p50 ms", "p99 ms", "failed")
    return Table("Servers under load", columns, rows, notes)


def _ratios(
    found: dict[tuple[str, int], list[Load]], ours: list[Server], theirs: list[Server]
) -> tuple[list[tuple[Cell, ...]], list[Target]]:
    """How many times as fast each of ours is as each of MLflow's, the median over the rounds.

    A target goes with the same number of processes, and with one of ours against any number of MLflow's.
    """
    rows: list[tuple[Cell, ...]] = []
    targets = []
    for count, own in zip(PROCESSES, ours, strict=True):
        for workers, other in zip(PROCESSES, theirs, strict=True):
            medians = [
                spread([a.rate / b.rate for a, b in zip(found[own.name, n], found[other.name, n], strict=True)])[0]
                for n in CLIENTS
            ]
            rows.append((f"{own.name}: {other.name}", *medians))
            if workers == count or count == 1:
                targets += [
                    Target(f"{own.name} against {other.name}, {counted(n, 'client')}", median, 2.0)
                    for n, median in zip(CLIENTS, medians, strict=True)
                ]
    return rows, targets


def _enough(requests: int, clients: int) -> int:
    """One client waits for each answer: a quarter of the requests takes as long."""
    return requests // 4 if clients == 1 else requests


def _move(version: str) -> None:
    connect().set_registered_model_alias(NAME, CHAMPION, version)


def _register(folder: Path, settings: Settings) -> str:
    """Two versions of a network as the recipe has it, untrained, which costs the same; the second one's number."""
    recipe = cifar100_cpu()
    closed_set = make_closed_set_net(recipe.network, NUM_CLASSES, settings.image_size, seed=0)
    classifier = OpenSetClassifier(
        net=add_placeholders(closed_set, NUM_DUMMIES, seed=0),
        network=recipe.network,
        image_size=settings.image_size,
        split=ClassSplit(tuple(range(NUM_CLASSES)), (), ()),
        class_names=tuple(f"class {number}" for number in range(NUM_CLASSES)),
        normalisation=NORMALISATION,
        score_function=MaxLogit(),
        calibration=Calibration(0.0, 0.95, 0.95, 100, (0.9, 1.0)),
        recipe=to_json(recipe),
    )
    client, version = connect(creates=True), ""
    for bias in (0.0, 1.0):
        changed = replace(classifier, calibration=replace(classifier.calibration, bias=bias))
        place = folder / f"bias {bias}"
        changed.save(place)
        version = register(client, run_of_its_own(client, "untrained"), NAME, place, str(bias), {}).version
    return version


def _files(settings: Settings) -> list[bytes]:
    size = settings.image_size
    pixels = np.random.default_rng(0).integers(0, 256, (IMAGES, size, size, 3), dtype=np.uint8)
    files = [io.BytesIO() for _ in pixels]
    for file, image in zip(files, pixels, strict=True):
        Image.fromarray(image).save(file, "PNG")
    return [file.getvalue() for file in files]
