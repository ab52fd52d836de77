"""A storage behind a URI as a whole: it goes away for a while or for good, and holds all that a sweep leaves."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import ray
from artefacts import artefact
from pipeline_runs import RunFolder, printed, write_space
from storages import BUCKET, TASK, Machines, s3_server
from training_jobs import tiny_recipe, training_job

import pipelines.storage.lease
from pipelines.cluster.cluster import Cluster
from pipelines.storage.lease import LOCK as REMOTE_LOCK
from pipelines.storage.mirror import Mirror
from pipelines.storage.objects import Objects, Stamp, open_objects
from pipelines.workflow.requests import SweepRequest
from pipelines.workflow.sweeping import sweep
from proser_core.errors import StorageError
from proser_core.jobs import spec
from proser_core.store.lock import IDENTITY
from proser_core.store.store import MANIFEST, Artefact, load_if_complete


@pytest.mark.usefixtures("s3")
def test_a_storage_that_is_away_for_a_moment_is_waited_for() -> None:
    with s3_server() as query:
        objects = open_objects(f"s3://{BUCKET}/moment?{query}")
    with ThreadPoolExecutor() as pool:
        written = pool.submit(objects.write, "a", b"1")
        with s3_server(int(query.rpartition(":")[2])):
            written.result()
            assert objects.read("a") == b"1"


@pytest.mark.usefixtures("s3")
@pytest.mark.slow
def test_a_storage_that_goes_away_is_one_clear_error(tmp_path: Path) -> None:
    with s3_server() as query:
        objects = replace(open_objects(f"s3://{BUCKET}/x?{query}"), retry_for_s=0.0)
    mirror = Mirror(tmp_path, objects=objects)
    with pytest.raises(StorageError, match=r"does not answer .* the same command continues"):
        mirror.push(artefact(tmp_path / "trials/k", a="1"))


@dataclass(frozen=True)
class SlowToAnswer(Objects):
    """Whose first listing is on its way until `go_on` is set."""

    listed: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def listing(self, folder: str) -> dict[str, Stamp]:
        found = super().listing(folder)
        if not self.listed.is_set():
            self.listed.set()
            self.go_on.wait()
        return found


@pytest.mark.parametrize("machines", ["file"], indirect=True)
def test_a_poll_with_an_older_listing_deletes_nothing_that_another_has_brought(machines: Machines) -> None:
    driver, objects = machines.mirror("driver"), SlowToAnswer.from_uri(machines.uri)
    driver.objects = objects
    folder = driver.root / "trials/k"
    with ThreadPoolExecutor() as threads:
        watching = threads.submit(driver.poll_if_due, [folder])
        objects.listed.wait()
        machines.objects.write(f"trials/k/{spec.FAILURE}", b"it diverged")
        at_a_rung = threads.submit(driver.poll, [folder])
        wait([at_a_rung], timeout=0.5)  # it ends, or waits for the other
        objects.go_on.set()
        watching.result()
        at_a_rung.result()
    assert spec.read_failure(folder) == "it diverged"


@pytest.mark.slow
def test_trials_of_two_workers_leave_their_outcome_on_the_storage(
    on_s3: Machines, task: Artefact, closed_set_weights: Path, own_ray: None
) -> None:
    recipe = tiny_recipe()
    recipe = replace(recipe, cluster=replace(recipe.cluster, num_workers=2))
    mirror = on_s3.mirror("driver")
    shutil.copytree(task.path, mirror.root / TASK)
    mirror.sync([mirror.root / TASK])
    tuned = {"good": recipe.finetune, "bad": replace(recipe.finetune, gamma=1e38)}
    there, trials = Artefact(mirror.root / TASK, ""), mirror.root / "trials"
    jobs = [
        training_job(there, trials / name, replace(recipe, finetune=finetune), weights=closed_set_weights)
        for name, finetune in tuned.items()
    ]
    Cluster(recipe.cluster, mirror).run_jobs(jobs, 2, "two-workers")
    good, bad = mirror.root / "trials/good", mirror.root / "trials/bad"
    assert load_if_complete(good) is not None
    assert [row["epoch"] for row in spec.read_epochs(good)] == [0, 1]
    assert load_if_complete(bad) is None
    assert "must stay finite" in (bad / spec.FAILURE).read_text()
    assert on_s3.objects.stamp(f"trials/good/{MANIFEST}") is not None


@pytest.mark.slow
def test_a_sweep_is_found_finished_by_a_machine_that_has_nothing(
    on_s3: Machines, run_folder: RunFolder, spaces: Path, monkeypatch: pytest.MonkeyPatch, own_ray: None
) -> None:
    write_space(spaces, "betas", '{"beta": tune.grid_search([1.0, 2.0])}')
    monkeypatch.setattr(pipelines.storage.lease, "SETTLE_S", 0.05)
    request = SweepRequest(tiny_recipe(), ("betas",), (0,), None, on_s3.uri)

    def swept(machine: str) -> tuple[str, dict[str, int]]:
        """What a sweep on that machine says, and when each network was put on the storage."""
        on_s3.on(machine)
        try:
            code, text = printed(sweep, request)
        finally:
            ray.shutdown()
        assert code == 0
        there = {**on_s3.objects.listing("pretrain"), **on_s3.objects.listing("trials")}
        return text, {name: stamp[1] for name, stamp in there.items() if name.endswith(spec.WEIGHTS)}

    text, trained = swept("first")
    assert "3 to train" in text
    assert len(trained) == 1 + 3
    text, again = swept("second")
    assert "every stage was already finished" in text
    assert "nothing to train" in text
    assert again == trained
    there = on_s3.objects.listing("").keys() - {IDENTITY}
    folders = {"/".join(name.split("/")[:2]) for name in there}
    stages = {folder.split("/")[0] for folder in folders}
    assert stages == {"prepare", "pretrain", "trials", "sweep", "sweep_report"}
    assert all(f"{folder}/{MANIFEST}" in there for folder in folders)
    assert on_s3.objects.read(REMOTE_LOCK) is None
