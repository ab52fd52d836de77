"""A run in MLflow is of one storage, whoever shares the tracking server, and moves with it."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from scenes import CONFIG, write_scenes
from storages import Machines
from tracked_runs import following
from training_jobs import tiny_recipe

import pipelines.storage.lease
from pipelines.storage.lease import LOCK
from pipelines.storage.opening import open_storage
from pipelines.storage.storage import Storage
from pipelines.tracking.runs import ParentRun
from pipelines.workflow.session import mark_run_failed, open_run
from pipelines.workflow.stale_artefacts import is_storage
from pipelines.workflow.training import TrainingInputs
from proser_core.store.lock import IDENTITY


@pytest.fixture(autouse=True)
def tracking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setattr(pipelines.storage.lease, "SETTLE_S", 0.05)


def opened(store: Storage) -> ParentRun:
    return open_run(store, "digits", tiny_recipe(), SimpleNamespace(data_inputs=[], spaces={}), [])


def test_two_storages_have_two_runs_and_one_that_moved_keeps_its_own(tmp_path: Path) -> None:
    mine, other = (opened(Storage(tmp_path / name)).run_id for name in ("mine", "others"))
    assert mine != other
    os.rename(tmp_path / "mine", tmp_path / "moved")
    assert opened(Storage(tmp_path / "moved")).run_id == mine
    assert is_storage(tmp_path / "moved"), "`proser clean` knows what is in it"


def test_all_machines_find_the_run_of_a_storage_behind_a_uri(machines: Machines, tmp_path: Path) -> None:
    first, second = (opened(machines.mirror(name)).run_id for name in ("first", "second"))
    assert first == second
    assert machines.objects.read(IDENTITY)
    assert opened(Storage(tmp_path / "folder")).run_id != first


def test_own_images_have_a_run_of_their_own_once_they_are_others_and_not_once_they_are_touched(tmp_path: Path) -> None:
    """Every image is a bitmap of as many bytes."""
    own, table = write_scenes(tmp_path / "own", "{scene}-{frame}.bmp", scenes=1), tmp_path / "groups.csv"
    recipe = replace(tiny_recipe(), space="", data=replace(CONFIG, group_by=str(table)))
    temple, flower = own / "temple/0-0.bmp", own / "flower/1-0.bmp"
    runs: list[str] = []

    def run() -> None:
        inputs = TrainingInputs.of([recipe], own, [])
        runs.append(open_run(Storage(tmp_path / "storage"), "own", recipe, inputs, []).run_id)

    table.write_text("path,group\ntemple/0-0.bmp,01\n")
    run()
    os.utime(table, (1, 1))
    os.utime(temple, (1, 1))
    run()
    assert runs.pop() == runs[0]
    table.write_text("path,group\ntemple/0-0.bmp,02\n")
    run()
    temple.rename(own / "temple/new.bmp")
    run()
    (own / "temple/new.bmp").rename(own / "flower/new.bmp")
    flower.rename(own / "temple/1-0.bmp")
    run()
    assert len(set(runs)) == 4


def test_a_command_that_has_lost_the_storage_leaves_the_run_to_the_one_that_has_it(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelines.storage.lease, "HEARTBEAT_S", 0.05)
    machines.on("first")
    said: list[str] = []
    runs: list[ParentRun] = []

    def work(store: Storage) -> None:
        runs.append(opened(store))
        with mark_run_failed(following(runs[0], store)):
            while not said:  # a heartbeat may come in between and overwrite it
                machines.objects.write(LOCK, json.dumps({"token": "x", "mirror": "other"}).encode())
                time.sleep(0.1)
            time.sleep(30)

    with pytest.raises(KeyboardInterrupt), open_storage(machines.uri, "proser run digits", said.append) as store:
        work(store)
    assert runs[0].client.get_run(runs[0].run_id).info.status == "RUNNING"
