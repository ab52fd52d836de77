"""A training whose storage is behind a URI: what reaches it and when, and what another machine makes of it."""

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from ray import tune
from storages import TASK, Machines
from training_jobs import ignore, lively_recipe, training_job

from pipelines.cluster.train_worker import run_single_trial
from pipelines.storage.mirror import Mirror
from pipelines.storage.objects import Objects
from pipelines.storage.training_folder import training_folder
from proser_core.config import Recipe
from proser_core.digests import sha256_of
from proser_core.jobs import spec
from proser_core.jobs.worker import run_job
from proser_core.store.lock import LOCK
from proser_core.store.store import Artefact, load_if_complete

ON_FILE, ON_S3 = (pytest.mark.parametrize("machines", [kind], indirect=True) for kind in ("file", "s3"))
"""One kind of storage each: that both keep files alike stands with the files."""


def stop_after(epochs: int, look: Callable[[], Any]) -> tuple[Callable[[object], None], list[Any]]:
    """A report that is a lost machine after so many epochs, and what `look` saw at each."""
    seen: list[Any] = []

    def report(metrics: object) -> None:
        seen.append(look())
        if len(seen) == epochs:
            raise ConnectionError("this machine is gone")

    return report, seen


def driver_of(machines: Machines, task: Artefact, closed_set_weights: Path) -> Mirror:
    """A driver whose task and pretraining are on the storage."""
    mirror = machines.mirror("driver")
    shutil.copytree(task.path, mirror.root / TASK)
    shutil.copytree(closed_set_weights.parent, mirror.root / "pretrain/net")
    mirror.sync([mirror.root / TASK, mirror.root / "pretrain/net"])
    return mirror


@pytest.fixture(scope="module")
def undisturbed(task: Artefact, closed_set_weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the training leaves in a folder of this machine, where nothing ever stopped it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run_job(training_job(task, folder, lively_recipe(), weights=closed_set_weights), ignore)
    return folder


@ON_FILE
def test_what_another_machine_reports_is_there_at_each_first_look(machines: Machines) -> None:
    driver = machines.mirror("driver")
    for trial in ("of one split", "of another"):
        machines.objects.write(f"trials/{trial}/{spec.EPOCHS}", b'{"epoch": 0}\n')
        driver.poll([driver.root / "trials" / trial])
        assert len(spec.read_epochs(driver.root / "trials" / trial)) == 1


class TestATraining:
    @pytest.fixture
    def driver(self, machines: Machines, task: Artefact, closed_set_weights: Path) -> Mirror:
        return driver_of(machines, task, closed_set_weights)

    def config(self, driver: Mirror, recipe: Recipe | None = None, *, sees_driver: bool = False) -> dict[str, Any]:
        """What a worker is handed, by a driver that has begun; its paths are of the driver's machine."""
        there, weights = Artefact(driver.root / TASK, ""), driver.root / "pretrain/net" / spec.WEIGHTS
        (job,) = driver.begin(
            [training_job(there, driver.root / "trials/k", recipe or lively_recipe(), weights=weights)]
        )
        config = {"job": job.to_json(), "storage": driver.address}
        if sees_driver:
            return config
        elsewhere = json.dumps(config).replace(str(driver.root), "/driver/of/another/machine")
        return json.loads(elsewhere)

    @ON_S3
    def test_that_lost_its_machine_goes_on_on_another_and_ends_the_same(
        self, machines: Machines, driver: Mirror, undisturbed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        folder = driver.root / "trials/k"

        def reported() -> int:
            driver.poll([folder])
            return len(spec.read_epochs(folder))

        report, on_storage = stop_after(2, reported)
        monkeypatch.setattr(tune, "report", report)
        config = self.config(driver)
        machines.on("first")
        with pytest.raises(ConnectionError):
            run_single_trial(config)
        assert on_storage == [1, 2]  # durable before it was reported
        assert machines.objects.stamp(f"trials/k/{spec.STATE}") is not None
        shutil.rmtree(tmp_path / "first")
        report, on_storage = stop_after(9, reported)
        monkeypatch.setattr(tune, "report", report)
        machines.on("second")
        run_single_trial(config)
        assert on_storage == [3]
        driver.poll([folder])
        assert load_if_complete(folder) is not None
        assert machines.objects.stamp(f"trials/k/{spec.STATE}") is None
        for name in (spec.WEIGHTS, spec.EPOCHS, spec.LOGITS):
            assert sha256_of(folder / name) == sha256_of(undisturbed / name), name

    @ON_FILE
    def test_that_is_finished_is_not_trained_again(
        self, machines: Machines, driver: Mirror, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        report, seen = stop_after(9, lambda: None)
        monkeypatch.setattr(tune, "report", report)
        config = self.config(driver)
        for machine in ("first", "second"):
            machines.on(machine)
            run_single_trial(config)
            assert len(seen) == 3

    @ON_FILE
    def test_that_goes_on_leaves_no_rank_a_changed_checkpoint(
        self, machines: Machines, driver: Mirror, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        report, _ = stop_after(1, lambda: None)
        monkeypatch.setattr(tune, "report", report)
        config, state = self.config(driver), f"trials/k/{spec.STATE}"
        machines.on("first")
        with pytest.raises(ConnectionError):
            run_single_trial(config)
        for changed in (False, True):
            content = bytearray(machines.objects.read(state) or b"")
            content[len(content) // 2] ^= changed
            machines.objects.write(state, bytes(content))
            machines.on(f"of another rank, {changed}")
            with training_folder(spec.Job(**config["job"]), config["storage"]).localised_job() as job:
                assert (Path(job.folder) / spec.STATE).is_file() == (not changed)

    @ON_FILE
    def test_that_pauses_is_scored_on_the_storage_and_goes_on_on_another_machine(
        self, machines: Machines, driver: Mirror, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder, config = driver.root / "trials/k", self.config(driver)
        goes = (("first", 2, 1, []), ("second", 1, 9, [1]), ("third", 2, 9, [1, 2]), ("fourth", 2, 9, [1, 2]))
        for machine, pause, lost_after, scored in (*goes, ("fifth", 0, 9, [1, 2])):
            report, seen = stop_after(lost_after, lambda: None)
            monkeypatch.setattr(tune, "report", report)
            machines.on(machine)
            config["job"]["pause"] = pause
            with pytest.raises(ConnectionError) if lost_after == 1 else nullcontext():
                run_single_trial(config)
            assert len(seen) == (machine in ("first", "fifth")), "a pause is not reported"
            driver.poll([folder])
            scores = spec.read_all_scores(folder)
            assert [row["epochs"] for row in scores] == scored
        assert all(0 < row[spec.SELECTION_METRIC] <= 1 for row in scores)
        assert sha256_of(folder / spec.WEIGHTS) == sha256_of(undisturbed / spec.WEIGHTS)

    @ON_FILE
    def test_uploads_the_checkpoint_of_an_epoch_last(
        self, machines: Machines, driver: Mirror, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A machine that is lost in between leaves no checkpoint of an epoch that the storage does not have."""
        upload, uploaded = Objects.upload, list[str]()

        def record(objects: Objects, path: Path, name: str) -> None:
            upload(objects, path, name)
            uploaded.append(Path(name).name)

        monkeypatch.setattr(Objects, "upload", record)
        config = self.config(driver)
        machines.on("first")
        folder = training_folder(spec.Job(**config["job"]), config["storage"])
        with folder.localised_job():
            for file in (spec.STATE, spec.DEVELOPMENT_SCORES, spec.EPOCHS):
                (folder.path / file).write_bytes(b"of this epoch")
            folder.publish()
        assert sorted(uploaded) == sorted((spec.EPOCHS, spec.DEVELOPMENT_SCORES, spec.STATE))
        assert uploaded[-1] == spec.STATE

    def test_brings_its_data_to_a_machine_once_and_leaves_nothing_else_there(
        self, on_s3: Machines, task: Artefact, closed_set_weights: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        driver = driver_of(on_s3, task, closed_set_weights)
        monkeypatch.setattr(tune, "report", ignore)
        recipe = lively_recipe(epochs=1)
        on_s3.on("first")
        run_single_trial(self.config(driver, recipe))
        (images,) = (tmp_path / "first").rglob("train_images.npy")
        before = images.stat()
        run_single_trial(self.config(driver, recipe))
        assert images.stat() == before
        assert [path.name for path in (tmp_path / "first").glob("*/node/trials/k/*")] == [LOCK]
        on_s3.on("driver")
        run_single_trial(self.config(driver, recipe, sees_driver=True))
        assert len(list((tmp_path / "driver").rglob("train_images.npy"))) == 1

    @ON_FILE
    def test_that_finds_its_images_lost_or_damaged_on_its_machine_brings_them_again(
        self, machines: Machines, driver: Mirror
    ) -> None:
        config = self.config(driver)
        machines.on("first")
        for harm in (Path.unlink, lambda path: path.write_bytes(b"damaged"), lambda path: None):
            with training_folder(spec.Job(**config["job"]), config["storage"]).localised_job() as job:
                images = Path(job.task) / "train_images.npy"
                assert sha256_of(images) == sha256_of(driver.root / TASK / images.name)
            harm(images)

    @ON_FILE
    def test_that_diverges_tells_the_driver_why(
        self, machines: Machines, driver: Mirror, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tune, "report", ignore)
        config = self.config(driver, lively_recipe(gamma=1e38))
        machines.on("first")
        run_single_trial(config)
        folder = driver.root / "trials/k"
        driver.poll([folder])
        assert "must stay finite" in (folder / spec.FAILURE).read_text()
        self.config(driver)  # the next attempt begins
        driver.poll([folder])
        assert not (folder / spec.FAILURE).exists()

    @ON_FILE
    def test_takes_a_users_own_file_with_it(
        self, machines: Machines, driver: Mirror, closed_set_weights: Path, tmp_path: Path
    ) -> None:
        shutil.copy(closed_set_weights, tmp_path / "mine.safetensors")
        there, own = Artefact(driver.root / TASK, ""), tmp_path / "mine.safetensors"
        (job,) = driver.begin([training_job(there, driver.root / "pretrain/own", kind="pretrain", weights=own)])
        (tmp_path / "mine.safetensors").unlink()
        machines.on("first")
        run_single_trial({"job": job.to_json(), "storage": driver.address})
        driver.poll([driver.root / "pretrain/own"])
        assert load_if_complete(driver.root / "pretrain/own") is not None

    @ON_FILE
    def test_whose_own_file_was_damaged_there_has_it_uploaded_by_the_next_command(
        self, machines: Machines, driver: Mirror, closed_set_weights: Path, tmp_path: Path
    ) -> None:
        shutil.copy(closed_set_weights, tmp_path / "mine.safetensors")
        there, own = Artefact(driver.root / TASK, ""), tmp_path / "mine.safetensors"
        started = training_job(there, driver.root / "pretrain/own", kind="pretrain", weights=own)
        (job,) = driver.begin([started])
        name = driver.name(Path(job.weights))
        machines.objects.write(name, b"damaged")
        machines.on("first")
        with pytest.raises(OSError, match=r"incomplete.*the same command uploads it again"):
            run_single_trial({"job": job.to_json(), "storage": driver.address})
        machines.mirror("driver").begin([started])
        assert machines.objects.read(name) == own.read_bytes()
