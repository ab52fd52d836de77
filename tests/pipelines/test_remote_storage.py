"""A storage behind a URI: what reaches it and when, and what other machines make of it."""

import io
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
from pipeline_runs import RunFolder, tiny_recipe
from ray import tune
from rich.console import Console
from storages import BUCKET, ENVIRONMENT, Machines, s3_server

import pipelines.remote.lock
from pipelines.attempts import run_searched_trial, run_single_trial
from pipelines.cluster import Cluster
from pipelines.remote.artefacts import pull, push
from pipelines.remote.lock import LOCK as REMOTE_LOCK
from pipelines.remote.lock import alone_at
from pipelines.remote.mirror import Mirror, mirrored
from pipelines.remote.objects import Objects, RemoteError, checked
from pipelines.search import read_scores
from pipelines.sweeping import SweepRequest, sweep
from proser_core.config import Recipe, to_json
from proser_core.errors import ConfigError
from proser_core.jobs import spec
from proser_core.jobs.files import sha256_of
from proser_core.jobs.lock import LOCK
from proser_core.jobs.store import MANIFEST, Artefact, Built, find, seal
from proser_core.jobs.worker import run_job

TASK = "prepare/task"


@pytest.fixture(scope="module")
def s3(patch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in ENVIRONMENT.items():
        patch.setenv(name, value)
    with s3_server() as query:
        yield query


@pytest.fixture(params=["file", "s3"])
def machines(request: pytest.FixtureRequest, tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch) -> Machines:
    uris = {"file": f"file://{tmp_path}/storage", "s3": f"s3://{BUCKET}/{tmp_path.name}?{s3}"}
    return Machines(uris[request.param], tmp_path, monkeypatch)


@pytest.fixture
def on_s3(tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch) -> Machines:
    return Machines(f"s3://{BUCKET}/{tmp_path.name}?{s3}", tmp_path, monkeypatch)


def artefact(folder: Path, **files: str) -> Path:
    """A finished folder with these files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    seal(folder, {"made": "of nothing"})
    return folder


def fail_at(objects: Objects, count: int) -> Objects:
    """The same storage for a process that dies in its `count`-th upload."""
    uploads: list[str] = []

    class Dying(Objects):
        def upload(self, source: Path, name: str) -> None:
            uploads.append(name)
            if len(uploads) == count:
                raise KeyboardInterrupt
            super().upload(source, name)

    return Dying(objects.uri, objects.files, objects.root)


class TestFilesBelowAUri:
    def test_are_read_replaced_listed_and_deleted(self, machines: Machines, tmp_path: Path) -> None:
        objects = machines.objects
        assert objects.read("a/b") is None
        assert objects.listing("a") == {}
        objects.write("a/b", b"1")
        objects.write("a/b", b"22")
        (tmp_path / "here").write_bytes(bytes(12_000_000))  # several parts of an upload
        objects.upload(tmp_path / "here", "a/deep/c")
        assert objects.read("a/b") == b"22"
        assert {name: stamp[0] for name, stamp in objects.listing("a").items()} == {"a/b": 2, "a/deep/c": 12_000_000}
        objects.download("a/deep/c", tmp_path / "there/c")
        assert sha256_of(tmp_path / "there/c") == sha256_of(tmp_path / "here")
        objects.delete("a/b")
        objects.delete("a/b")
        assert objects.stamp("a/b") is None
        with pytest.raises(FileNotFoundError):
            objects.download("a/b", tmp_path / "there/b")

    @pytest.mark.parametrize(
        ("uri", "message"),
        [
            ("foo://bucket/x", "cannot be written and read .Unrecognized filesystem type"),
            ("s3://nowhere/x?{s3}", "NO_SUCH_BUCKET"),
            ("s3://key:secret@bucket/x", "a URI with a password in it"),
            ("file://{here}/file/x", "cannot be written and read"),
            ("file://relative/x", "check the URI"),
        ],
    )
    def test_a_uri_that_cannot_be_used_is_refused(self, uri: str, message: str, s3: str, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(ConfigError, match=message) as refused:
            checked(uri.format(s3=s3, here=tmp_path))
        assert len(str(refused.value).splitlines()) == 1
        assert "secret@" not in str(refused.value)


class TestAFinishedFolder:
    def test_is_the_same_on_another_machine(self, machines: Machines) -> None:
        first, second = machines.mirror("first"), machines.mirror("second")
        made = artefact(first.root / "trials/k", a="1", b="2")
        first.push(made)
        second.agree([second.root / "trials/k"])
        found = find(second.root / "trials/k")
        assert found is not None
        assert found.digest == find(made).digest  # type: ignore[union-attr]

    def test_brings_those_that_it_links_to(self, machines: Machines) -> None:
        first, second = machines.mirror("first"), machines.mirror("second")
        linked = artefact(first.root / "trials/k", a="1")
        first.agree([linked])
        (first.root / "sweep/s").mkdir(parents=True)
        seal(first.root / "sweep/s", {}, Built(linked=(linked,)))
        first.push(first.root / "sweep/s")
        second.agree([second.root / "sweep/s"])
        assert find(second.root / "sweep/s") is not None

    @pytest.mark.parametrize("count", [1, 2])
    def test_of_which_only_a_part_got_there_is_none(self, machines: Machines, count: int) -> None:
        first, second = machines.mirror("first"), machines.mirror("second")
        made = artefact(first.root / "trials/k", a="1", b="2")
        with pytest.raises(KeyboardInterrupt):
            push(fail_at(machines.objects, count), made, "trials/k")
        second.agree([second.root / "trials/k"])
        assert find(second.root / "trials/k") is None
        first.agree([made])
        second.agree([second.root / "trials/k"])
        assert find(second.root / "trials/k") is not None

    def test_that_replaces_another_never_stands_under_the_old_manifest(self, machines: Machines) -> None:
        mirror = machines.mirror("first")
        mirror.push(artefact(mirror.root / "trials/k", a="1", b="2"))
        with pytest.raises(KeyboardInterrupt):
            push(fail_at(machines.objects, 2), artefact(mirror.root / "trials/k", a="3", b="4"), "trials/k")
        assert machines.objects.read(f"trials/k/{MANIFEST}") is None

    @pytest.mark.parametrize("change", ["changed", "missing", "manifest"])
    def test_that_was_changed_is_refused_and_made_whole_from_where_it_is(self, machines: Machines, change: str) -> None:
        first, second = machines.mirror("first"), machines.mirror("second")
        made = artefact(first.root / "trials/k", a="1", b="2")
        first.push(made)
        if change == "changed":
            machines.objects.write("trials/k/b", b"9")
        elif change == "missing":
            machines.objects.delete("trials/k/b")
        else:
            machines.objects.write(f"trials/k/{MANIFEST}", b'{"files": {"../../b": "x"}, "complete": true}')
        assert not pull(machines.objects, "trials/k", second.root / "trials/k")
        assert find(second.root / "trials/k") is None
        machines.mirror("first").agree([made])
        assert pull(machines.objects, "trials/k", second.root / "trials/k")
        assert find(second.root / "trials/k") is not None


def stop_after(epochs: int, look: Callable[[], Any]) -> tuple[Callable[[object], None], list[Any]]:
    """A report that is a lost machine after so many epochs, and what `look` saw at each."""
    seen: list[Any] = []

    def report(metrics: object) -> None:
        seen.append(look())
        if len(seen) == epochs:
            raise ConnectionError("this machine is gone")

    return report, seen


def lively_recipe(**finetune: Any) -> Recipe:
    recipe = tiny_recipe()
    return replace(recipe, finetune=replace(recipe.finetune, **{"epochs": 3, "schedule": "cosine", **finetune}))


def driver_of(machines: Machines, task: Artefact, closed_set_weights: Path) -> Mirror:
    """A driver whose task and pretraining are on the storage."""
    mirror = machines.mirror("driver")
    shutil.copytree(task.path, mirror.root / TASK)
    shutil.copytree(closed_set_weights.parent, mirror.root / "pretrain/net")
    mirror.agree([mirror.root / TASK, mirror.root / "pretrain/net"])
    return mirror


class TestATraining:
    @pytest.fixture
    def driver(self, machines: Machines, task: Artefact, closed_set_weights: Path) -> Mirror:
        return driver_of(machines, task, closed_set_weights)

    def config(self, driver: Mirror, recipe: Recipe | None = None, *, sees_driver: bool = False) -> dict[str, Any]:
        """What a worker is handed, by a driver that has begun; its paths are of the driver's machine."""
        job = spec.Job(
            kind="finetune",
            recipe=to_json(recipe or lively_recipe()),
            task=str(driver.root / TASK),
            folder=str(driver.root / "trials/k"),
            weights=str(driver.root / "pretrain/net" / spec.WEIGHTS),
        )
        (job,) = driver.begin([job])
        config = {"job": job.to_json(), "storage": driver.address}
        if sees_driver:
            return config
        elsewhere = json.dumps(config).replace(str(driver.root), "/driver/of/another/machine")
        return json.loads(elsewhere)

    def test_that_lost_its_machine_goes_on_on_another_and_ends_the_same(
        self, machines: Machines, driver: Mirror, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        folder = driver.root / "trials/k"

        def reported() -> int:
            driver.look([folder])
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
        driver.look([folder])
        assert find(folder) is not None
        assert machines.objects.stamp(f"trials/k/{spec.STATE}") is None
        whole = replace(spec.Job(**self.config(driver, sees_driver=True)["job"]), folder=str(tmp_path / "undisturbed"))
        run_job(whole, lambda metrics: None)
        for name in (spec.WEIGHTS, spec.EPOCHS, spec.LOGITS):
            assert sha256_of(folder / name) == sha256_of(tmp_path / "undisturbed" / name), name

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

    def test_of_a_search_tells_the_scheduler_of_another_machine_what_it_knew(
        self, machines: Machines, driver: Mirror, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        rows: list[dict[str, float]] = []

        def report(row: dict[str, float]) -> None:
            rows.append(row)
            assert json.loads((machines.objects.read(f"trials/k/{spec.SCORES}") or b"").splitlines()[-1]) in rows
            if len(rows) == 2:
                raise ConnectionError("this machine is gone")

        monkeypatch.setattr(tune, "report", report)
        config = self.config(driver)
        machines.on("first")
        with pytest.raises(ConnectionError):
            run_searched_trial(config)
        machines.on("second")
        run_searched_trial(config)
        assert [row["epochs"] for row in rows] == [1, 2, 1, 2, 3]
        assert rows[2:4] == rows[:2]
        driver.look([driver.root / "trials/k"])
        assert read_scores(driver.root / "trials/k") == rows[2:]

    def test_brings_its_data_to_a_machine_once_and_leaves_nothing_else_there(
        self, on_s3: Machines, task: Artefact, closed_set_weights: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        driver = driver_of(on_s3, task, closed_set_weights)
        monkeypatch.setattr(tune, "report", lambda metrics: None)
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

    def test_that_diverges_tells_the_driver_why(
        self, machines: Machines, driver: Mirror, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tune, "report", lambda metrics: None)
        config = self.config(driver, lively_recipe(gamma=1e38))
        machines.on("first")
        run_single_trial(config)
        folder = driver.root / "trials/k"
        driver.look([folder])
        assert "must stay finite" in (folder / spec.FAILURE).read_text()
        self.config(driver)  # the next attempt begins
        driver.look([folder])
        assert not (folder / spec.FAILURE).exists()

    def test_takes_a_users_own_file_with_it(
        self, machines: Machines, driver: Mirror, closed_set_weights: Path, tmp_path: Path
    ) -> None:
        shutil.copy(closed_set_weights, tmp_path / "mine.safetensors")
        job = spec.Job(
            kind="pretrain",
            recipe=to_json(tiny_recipe()),
            task=str(driver.root / TASK),
            folder=str(driver.root / "pretrain/own"),
            weights=str(tmp_path / "mine.safetensors"),
        )
        (job,) = driver.begin([job])
        (tmp_path / "mine.safetensors").unlink()
        machines.on("first")
        run_single_trial({"job": job.to_json(), "storage": driver.address})
        driver.look([driver.root / "pretrain/own"])
        assert find(driver.root / "pretrain/own") is not None


class TestTheLock:
    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pipelines.remote.lock, "SETTLE", 0.05)

    def hold(self, machines: Machines, mirror: str, work: str = "proser run digits") -> Any:
        return alone_at(machines.objects, mirror, work, lambda text: None)

    def test_tells_a_second_run_who_is_first_and_is_given_back(self, machines: Machines) -> None:
        with (
            self.hold(machines, "first"),
            pytest.raises(ConfigError, match=r"another run works in .*: proser run digits, process \d+ on .*, since"),
            self.hold(machines, "second"),
        ):
            pass
        assert machines.objects.read(REMOTE_LOCK) is None
        with self.hold(machines, "second"):
            pass

    def test_of_a_run_that_was_killed_on_this_machine_is_taken_over_at_once(self, machines: Machines) -> None:
        machines.objects.write(REMOTE_LOCK, json.dumps({"token": "x", "mirror": "first", "holder": "dead"}).encode())
        with self.hold(machines, "first"):
            pass

    def test_without_a_sign_of_life_is_taken_over(self, machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
        machines.objects.write(REMOTE_LOCK, b"{damaged")
        with pytest.raises(ConfigError, match="a run that does not name itself"), self.hold(machines, "first"):
            pass
        monkeypatch.setattr(pipelines.remote.lock, "STALE", 0.0)
        with self.hold(machines, "first"):
            pass

    def test_that_another_run_took_over_interrupts_this_one(
        self, machines: Machines, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pipelines.remote.lock, "BEAT", 0.05)
        told: list[str] = []
        taken = {"token": "x", "mirror": "other", "holder": "proser sweep digits"}

        def work() -> None:
            while not told:  # a sign of life may come in between and write over it
                machines.objects.write(REMOTE_LOCK, json.dumps(taken).encode())
                time.sleep(0.1)
            time.sleep(30)

        with pytest.raises(KeyboardInterrupt), alone_at(machines.objects, "first", "work", told.append):
            work()
        assert "another run has taken over" in told[0]
        assert json.loads(machines.objects.read(REMOTE_LOCK) or b"") == taken

    def test_keeps_two_runs_of_one_machine_apart_too(self, machines: Machines) -> None:
        machines.on("first")

        def opened() -> Any:
            return mirrored(machines.uri, "proser run digits", announce=print, tell=print)

        with opened(), pytest.raises(ConfigError, match="another run works in"), opened():
            pass


@pytest.mark.usefixtures("s3")
def test_a_storage_that_is_away_for_a_moment_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as query:
        objects = checked(f"s3://{BUCKET}/moment?{query}")
    with pytest.raises(OSError, match="AWS Error NETWORK_CONNECTION"):
        replace(objects, patience=0.0).write("a", b"1")
    with ThreadPoolExecutor() as pool:
        written = pool.submit(objects.write, "a", b"1")
        with s3_server(int(query.rpartition(":")[2])):
            written.result()
            assert objects.read("a") == b"1"


@pytest.mark.usefixtures("s3")
def test_a_storage_that_goes_away_is_one_clear_error(tmp_path: Path) -> None:
    with s3_server() as query:
        objects = replace(checked(f"s3://{BUCKET}/x?{query}"), patience=0.0)
    mirror = Mirror(objects, tmp_path)
    with pytest.raises(RemoteError, match=r"does not answer .* the same command goes on"):
        mirror.push(artefact(tmp_path / "trials/k", a="1"))


@pytest.mark.slow
def test_trials_of_two_workers_leave_their_outcome_on_the_storage(
    on_s3: Machines, task: Artefact, closed_set_weights: Path, own_ray: None
) -> None:
    recipe = tiny_recipe()
    recipe = replace(recipe, cluster=replace(recipe.cluster, num_workers=2))
    mirror = on_s3.mirror("driver")
    shutil.copytree(task.path, mirror.root / TASK)
    mirror.agree([mirror.root / TASK])
    tuned = {"good": recipe.finetune, "bad": replace(recipe.finetune, gamma=1e38)}
    jobs = [
        spec.Job(
            kind="finetune",
            recipe=to_json(replace(recipe, finetune=finetune)),
            task=str(mirror.root / TASK),
            folder=str(mirror.root / "trials" / name),
            weights=str(closed_set_weights),
        )
        for name, finetune in tuned.items()
    ]
    Cluster(recipe.cluster, mirror.root, mirror=mirror).run_jobs(jobs, 2, "two-workers")
    good, bad = mirror.root / "trials/good", mirror.root / "trials/bad"
    assert find(good) is not None
    assert [row["epoch"] for row in spec.read_epochs(good)] == [0, 1]
    assert find(bad) is None
    assert "must stay finite" in (bad / spec.FAILURE).read_text()
    assert on_s3.objects.stamp(f"trials/good/{MANIFEST}") is not None


BETAS = '''"""Two points."""

from ray import tune


def param_space():
    return {"finetune": {"beta": tune.grid_search([1.0, 2.0])}}
'''


@pytest.mark.slow
def test_a_sweep_is_found_finished_by_a_machine_that_has_nothing(
    on_s3: Machines, run_folder: RunFolder, spaces: Path, monkeypatch: pytest.MonkeyPatch, own_ray: None
) -> None:
    (spaces / "betas.py").write_text(BETAS)
    monkeypatch.setattr(pipelines.remote.lock, "SETTLE", 0.05)
    request = SweepRequest(tiny_recipe(), ("betas",), (0,), None, on_s3.uri)

    def swept(machine: str) -> tuple[str, dict[str, int]]:
        """What a sweep on that machine says, and when each network was put on the storage."""
        on_s3.on(machine)
        out = io.StringIO()
        try:
            assert sweep(request, Console(file=out, width=200)) == 0
        finally:
            ray.shutdown()
        there = {**on_s3.objects.listing("pretrain"), **on_s3.objects.listing("trials")}
        return out.getvalue(), {name: stamp[1] for name, stamp in there.items() if name.endswith(spec.WEIGHTS)}

    text, trained = swept("first")
    assert "3 to train" in text
    assert len(trained) == 1 + 3
    text, again = swept("second")
    assert "every stage was found finished" in text
    assert "nothing to train" in text
    assert again == trained
    there = on_s3.objects.listing("")
    folders = {"/".join(name.split("/")[:2]) for name in there}
    assert {folder.split("/")[0] for folder in folders} == {"prepare", "pretrain", "trials", "sweep", "report"}
    assert all(f"{folder}/{MANIFEST}" in there for folder in folders)
    assert on_s3.objects.read(REMOTE_LOCK) is None


def test_two_threads_that_bring_one_folder_at_a_time_both_have_it_and_it_stays(tmp_path: Path) -> None:
    """Each is held in the middle of its download until the other one is there too."""
    both = threading.Barrier(2, timeout=20)

    class Slow(Objects):
        def download(self, name: str, path: Path) -> None:
            super().download(name, path)
            both.wait()

    (tmp_path / "there").mkdir()
    objects = Slow.of((tmp_path / "there").as_uri())
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "file").write_text("content")
    seal(tmp_path / "made", {})
    push(objects, tmp_path / "made", "trials/k")
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: pull(objects, "trials/k", tmp_path / "here"), range(2)))
    assert found == [True, True]
    assert find(tmp_path / "here") is not None
    assert objects.read(f"trials/k/{MANIFEST}") is not None
