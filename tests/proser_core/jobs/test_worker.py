"""A worker of a training: what it leaves on disk, also after it was stopped, and how long it says that it took."""

import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from training_jobs import StoppedError, ignore, lively_recipe, stop_after, tiny_recipe, training_job

from proser_core.config import Recipe, to_json
from proser_core.data.tasks import TASK_PARTS, Labelled, OpenSetTask
from proser_core.digests import sha256_of
from proser_core.errors import CheckpointError, StorageError, TrainingError
from proser_core.jobs import spec, worker
from proser_core.jobs.checkpoint_score import score_checkpoint
from proser_core.jobs.spec import EPOCHS, FAILURE, STATE, read_epochs
from proser_core.jobs.worker import DurableReport, clear_folder, run_job
from proser_core.networks.nets import make_closed_set_net
from proser_core.networks.weights import load_weights
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logit_tables import SCORED_PARTS, TRAIN, load_logits
from proser_core.recognition.logits import compute_logits
from proser_core.recognition.scores import own_score
from proser_core.store.files import temporary_path
from proser_core.store.store import MANIFEST, Artefact, load_if_complete, write_manifest

CPU = torch.device("cpu")
Make = Callable[..., spec.Job]


@pytest.fixture(scope="module")
def few(task: Artefact, tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """A quarter of the tiny recipe's images."""
    whole, folder = OpenSetTask.load(task.path), tmp_path_factory.mktemp("few")
    parts = {name: getattr(whole, name) for name in TASK_PARTS}
    fewer = {name: Labelled(np.asarray(part.images)[::4], part.targets[::4]) for name, part in parts.items()}
    replace(whole, **fewer, test_classes=whole.test_classes[::4]).save(folder)
    return write_manifest(folder, {})


@pytest.fixture
def make(few: Artefact, closed_set_weights: Path, tmp_path: Path) -> Make:
    """A job of the lively recipe or another one, on few images."""

    def job(name: str, kind: str = "finetune", recipe: Recipe | None = None, weights: Path | None = None) -> spec.Job:
        (tmp_path / name).mkdir()  # as the store does
        begin = weights or (closed_set_weights if kind == "finetune" else None)
        return training_job(few, tmp_path / name, recipe or lively_recipe(), kind, begin or "")

    return job


@pytest.mark.parametrize(
    ("kind", "stopped_after"), [pytest.param("pretrain", 1, marks=pytest.mark.slow), ("finetune", 3)]
)
def test_a_job_that_was_stopped_after_an_epoch_equals_one_that_never_stopped(
    make: Make, kind: str, stopped_after: int
) -> None:
    whole, stopped = make("whole", kind), make("stopped", kind)
    run_job(whole, ignore)
    with pytest.raises(StoppedError):
        run_job(stopped, stop_after(stopped_after))
    assert load_if_complete(Path(stopped.folder)) is None
    assert len(spec.read_epochs(Path(stopped.folder))) == stopped_after
    run_job(stopped, ignore)
    for name in (spec.WEIGHTS, spec.EPOCHS, spec.LOGITS):
        assert sha256_of(Path(stopped.folder) / name) == sha256_of(Path(whole.folder) / name), name
    assert load_if_complete(Path(stopped.folder)).digest == load_if_complete(Path(whole.folder)).digest


def test_a_finished_job_leaves_weights_logits_and_epochs_and_no_checkpoint(make: Make, few: Artefact) -> None:
    job, on_disk = make("job"), []
    folder = Path(job.folder)
    run_job(job, lambda metrics: on_disk.append(len(spec.read_epochs(folder))))
    assert on_disk == [1, 2, 3], "before they are reported"
    assert {path.name for path in folder.iterdir()} == {spec.WEIGHTS, spec.LOGITS, spec.EPOCHS, MANIFEST}
    rows = spec.read_epochs(folder)
    assert [row["epoch"] for row in rows] == [0, 1, 2]
    assert all(math.isfinite(value) for row in rows for value in row.values())
    images, logits = OpenSetTask.load(few.path), load_logits(folder / spec.LOGITS)
    assert tuple(logits) == SCORED_PARTS
    for part in SCORED_PARTS:
        assert logits[part].known.shape == (len(getattr(images, part)), 5)
        assert logits[part].dummies.shape == (len(getattr(images, part)), 5)


@pytest.mark.parametrize("averaging", [0.0, 0.9])
def test_the_score_of_a_checkpoint_is_that_of_the_network_that_it_would_be(
    make: Make, few: Artefact, averaging: float
) -> None:
    recipe = replace(lively_recipe(), finetune=replace(lively_recipe().finetune, averaging=averaging))
    job = make("job", recipe=recipe)
    run_job(job, lambda metrics: score_checkpoint(job))  # after the last epoch there is still one
    folder = Path(job.folder)
    rows, images = spec.read_scores(folder, recipe.calibration), OpenSetTask.load(few.path)
    assert [row["epochs"] for row in rows] == [1, 2, 3]
    logits = load_logits(folder / spec.LOGITS)
    kept = evaluate(logits, own_score(recipe), images, recipe.calibration.target_rate).flat()
    assert rows[-1][spec.SELECTION_METRIC] == pytest.approx(kept[spec.SELECTION_METRIC], abs=1e-9)
    assert len({row[spec.SELECTION_METRIC] for row in rows}) > 1


@pytest.mark.parametrize("change", [{"target_rate": 0.6}, {"dummy_weight": 0.0}])
def test_a_checkpoint_is_scored_again_by_another_calibration(make: Make, change: dict[str, float]) -> None:
    recipe = lively_recipe()
    other = replace(recipe, calibration=replace(recipe.calibration, **change))
    job = replace(make("job", recipe=recipe), pause=2)
    with pytest.raises(StoppedError):
        run_job(job, stop_after(2))
    score_checkpoint(job)
    again, folder = replace(job, recipe=to_json(other)), Path(job.folder)
    assert (job.is_paused, again.is_paused) == (True, False)
    score_checkpoint(again)
    assert (job.is_paused, again.is_paused) == (True, True)
    (first,), (second,) = (spec.read_scores(folder, each.calibration) for each in (recipe, other))
    assert first["epochs"] == second["epochs"] == 2
    assert first[spec.SELECTION_METRIC] != second[spec.SELECTION_METRIC]


def test_a_job_with_the_users_weights_only_scores_them(
    closed_set_weights: Path, task: Artefact, tmp_path: Path
) -> None:
    recipe = tiny_recipe()
    job = training_job(task, tmp_path, recipe, "pretrain", closed_set_weights)
    run_job(job, stop_after(1))
    folder = Path(job.folder)
    assert not (folder / spec.EPOCHS).exists()
    given, kept = load_file(closed_set_weights), load_file(folder / spec.WEIGHTS)
    assert given.keys() == kept.keys()
    assert all(given[name].equal(kept[name]) for name in given)
    trained = load_logits(closed_set_weights.parent / spec.LOGITS)
    logits = load_logits(folder / spec.LOGITS)
    assert tuple(logits) == tuple(trained) == (*SCORED_PARTS, TRAIN)
    assert all(np.array_equal(logits[part].known, trained[part].known) for part in trained)
    images = OpenSetTask.load(task.path)
    net = make_closed_set_net(recipe.network, images.num_known, recipe.data.image_size, recipe.seed)
    load_weights(net, closed_set_weights)
    unaugmented = compute_logits(net, images.train.images, (images.mean, images.std), torch.device("cpu"))
    np.testing.assert_array_equal(logits[TRAIN].known, unaugmented.known)
    assert load_if_complete(folder) is not None


def test_weights_of_other_shapes_are_refused_by_name(make: Make, closed_set_weights: Path) -> None:
    recipe = replace(tiny_recipe(), network=replace(tiny_recipe().network, backbone="classifier32_flat"))
    run_job(make("same", "pretrain", recipe, weights=closed_set_weights), ignore)  # at 8 pixels the shapes are equal
    wider = replace(recipe, data=replace(recipe.data, image_size=32))
    with pytest.raises(CheckpointError, match=r"classifier\.weight has shape \(5, 128\)"):
        run_job(make("job", "pretrain", wider, weights=closed_set_weights), ignore)


def test_a_loss_that_is_not_finite_leaves_its_message_and_no_artefact(make: Make) -> None:
    job = make("job", recipe=lively_recipe(gamma=1e38))
    with pytest.raises(TrainingError, match="must stay finite"):
        run_job(job, ignore)
    folder = Path(job.folder)
    assert "must stay finite" in (folder / spec.FAILURE).read_text()
    assert load_if_complete(folder) is None
    assert not (folder / spec.WEIGHTS).exists()


def test_weights_that_overflow_in_the_very_last_step_are_a_failure_too(make: Make, few: Artefact) -> None:
    one_batch = len(OpenSetTask.load(few.path).train) // 2 * 2
    job = make("job", recipe=lively_recipe(gamma=1e38, epochs=1, batch_size=one_batch))
    with pytest.raises(TrainingError, match="logits that are not finite"):
        run_job(job, ignore)
    assert load_if_complete(Path(job.folder)) is None


def test_a_crash_in_the_last_moment_of_a_job_repeats_no_epoch(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make("job")

    def crash(*arguments: object, **options: object) -> None:
        raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(worker, "write_manifest", crash)
        with pytest.raises(StoppedError):
            run_job(job, ignore)
    again: list[object] = []
    run_job(job, again.append)
    assert again == []
    assert len(spec.read_epochs(Path(job.folder))) == 3
    assert load_if_complete(Path(job.folder)) is not None


def full_disk_at(path: Path) -> None:
    """Let the next write to a path meet a full disk."""
    path.symlink_to("/dev/full")


@pytest.mark.slow
def test_a_full_disk_at_a_checkpoint_is_named_and_the_job_goes_on_once_there_is_room(make: Make) -> None:
    whole, cut = make("whole"), make("cut")
    folder = Path(cut.folder)
    beside = folder / f".{spec.STATE}.{os.getpid()}"
    with pytest.raises(StorageError, match="is full; free some space"):
        run_job(cut, lambda metrics: full_disk_at(beside))
    assert "is full" in (folder / spec.FAILURE).read_text()
    assert {path.name for path in folder.iterdir()} == {spec.EPOCHS, spec.STATE, spec.FAILURE}
    again: list[object] = []
    run_job(cut, again.append)
    run_job(whole, ignore)
    assert len(again) == 2  # the first epoch had its checkpoint
    assert load_if_complete(folder).digest == load_if_complete(Path(whole.folder)).digest


def test_a_full_disk_at_the_weights_leaves_the_last_checkpoint_and_no_half_of_them(make: Make) -> None:
    job = make("job", recipe=lively_recipe(epochs=1))
    folder = Path(job.folder)
    with pytest.raises(StorageError, match="is full"):
        run_job(job, lambda metrics: full_disk_at(folder / spec.WEIGHTS))
    assert {path.name for path in folder.iterdir()} == {spec.EPOCHS, spec.STATE, spec.FAILURE}
    run_job(job, stop_after(1))
    assert load_if_complete(folder) is not None


def test_a_job_removes_what_a_killed_process_was_writing_and_an_earlier_failure_and_leaves_the_lock(make: Make) -> None:
    job = make("job", recipe=lively_recipe(epochs=1))
    folder = Path(job.folder)
    (folder / f".{spec.STATE}.12345").write_bytes(b"half")
    (folder / spec.FAILURE).write_text("an earlier attempt")
    (folder / ".lock").touch()
    run_job(job, ignore)
    assert {path.name for path in folder.iterdir()} == {".lock", spec.WEIGHTS, spec.LOGITS, spec.EPOCHS, MANIFEST}


@pytest.mark.parametrize("left", [(EPOCHS, STATE), (EPOCHS,)], ids=["with a checkpoint", "without one"])
def test_epochs_stay_with_the_checkpoint_that_goes_on_from_them_alone(tmp_path: Path, left: tuple[str, ...]) -> None:
    for name in (*left, FAILURE, MANIFEST, f".{STATE}.77", "weights"):
        (tmp_path / name).touch()
    clear_folder(tmp_path)
    kept = {*left, "weights"} if STATE in left else {"weights"}
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_an_epoch_that_is_repeated_takes_the_place_of_the_row_that_a_crash_left(tmp_path: Path) -> None:
    for loss in (3.0, 2.0):
        report = DurableReport(tmp_path, lambda _: None, write=True)
        report(0, {"loss": 4.0}, {"epoch": 0})
        report(1, {"loss": loss}, {"epoch": 1})
    assert read_epochs(tmp_path) == [{"epoch": 0, "loss": 4.0}, {"epoch": 1, "loss": 2.0}]


def test_a_checkpoint_is_of_no_later_epoch_than_the_last_row_where_the_disk_is_full(tmp_path: Path) -> None:
    report = DurableReport(tmp_path, lambda _: None, write=True)
    report(0, {"loss": 4.0}, {"epoch": 0})
    temporary_path(tmp_path / EPOCHS).symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space"):
        report(1, {"loss": 3.0}, {"epoch": 1})
    state = report.last_state(torch.device("cpu"))
    assert state is not None
    assert [row["epoch"] for row in read_epochs(tmp_path)] == list(range(state["epoch"] + 1)) == [0]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The time, which tests set."""
    now = {"seconds": 100.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["seconds"])
    return now


def test_epochs_count_and_what_reporting_them_takes_does_not(tmp_path: Path, clock: dict[str, float]) -> None:
    def slow_to_notify(_: object) -> None:
        clock["seconds"] += 50.0

    report = DurableReport(tmp_path, slow_to_notify, write=True)
    for epoch in range(3):
        clock["seconds"] += 2.5
        report(epoch, {}, {"epoch": epoch})
    assert report.seconds == 7.5


def test_a_training_that_goes_on_adds_to_what_it_had_and_an_epoch_that_was_lost_is_not_counted(
    tmp_path: Path, clock: dict[str, float]
) -> None:
    first = DurableReport(tmp_path, lambda _: None, write=True)
    clock["seconds"] += 4.0
    first(0, {}, {"epoch": 0})
    clock["seconds"] += 1000.0  # lost with the worker
    again = DurableReport(tmp_path, lambda _: None, write=True)
    assert again.last_state(CPU) == {"epoch": 0, "seconds": 4.0}
    clock["seconds"] += 3.0
    again(1, {}, {"epoch": 1})
    assert again.seconds == 7.0
