"""Training on images that Ray Data decodes meanwhile gives what training on images in memory gives, bit for bit."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from digit_folders import write_parts
from encoded_images import encode
from training_jobs import StoppedError, ignore, stop_after, tiny_recipe, training_job

from pipelines.cluster import streaming
from pipelines.cluster.cluster import Cluster
from pipelines.cluster.session import DRIVER_RESOURCE
from pipelines.cluster.streaming import RayImages
from pipelines.storage.storage import Storage
from proser_core.config import Recipe
from proser_core.data.catalogue import SOURCES, Source
from proser_core.data.readers import digits
from proser_core.data.readers.parquet import ParquetLayout
from proser_core.data.stored import StoredImages
from proser_core.data.tasks import OpenSetTask
from proser_core.digests import sha256_of
from proser_core.errors import DataError
from proser_core.jobs import spec
from proser_core.jobs.preparing import prepare_inputs, prepare_task, save_task
from proser_core.jobs.worker import run_job
from proser_core.store.store import Artefact, write_manifest

SIZE = 8
OUTCOME = (spec.WEIGHTS, spec.EPOCHS, spec.LOGITS)
PARQUET = Source(
    "digits_parquet", 10, {"train": digits.NUM_TRAIN, "test": digits.NUM_TEST}, (ParquetLayout("digits_parquet"),)
)


def write_parquet(root: Path, size: int, shards: int = 2) -> Path:
    """ROOT/digits_parquet/*.parquet as the Hugging Face Hub writes them, in row groups of 100."""
    features = {"label": {"names": [str(label) for label in range(10)], "_type": "ClassLabel"}}
    image_type = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    (root / PARQUET.name).mkdir(parents=True)
    for part in ("train", "test"):
        loaded = digits.read(part, size)
        for number, rows in enumerate(np.array_split(np.arange(len(loaded)), shards)):
            encoded = [{"bytes": encode(loaded.images[row]), "path": None} for row in rows]
            table = pa.table({"image": pa.array(encoded, image_type), "label": loaded.labels[rows]})
            table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
            path = root / PARQUET.name / f"{part}-{number:05}-of-{shards:05}.parquet"
            pq.write_table(table, path, row_group_size=100)
    return root


SETS = {"folder": write_parts, PARQUET.name: write_parquet}


@pytest.fixture(scope="module", autouse=True)
def local_ray() -> Iterator[None]:
    """Two cores, of which the workers of a trial take both: what decodes must not wait for a third."""
    ray.shutdown()
    ray.init("local", num_cpus=2, include_dashboard=False, resources={DRIVER_RESOURCE: 1000}, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> Path:
    patch.setitem(SOURCES, PARQUET.name, PARQUET)
    root = tmp_path_factory.mktemp("data")
    for write in SETS.values():
        write(root, SIZE)
    return root


@pytest.fixture(scope="module")
def tasks(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Artefact]:
    """The prepared task of each set, in memory and streamed."""
    store = Storage(tmp_path_factory.mktemp("storage"))
    made = {}
    for name in SETS:
        for streamed in (False, True):
            recipe = recipe_of(name, streamed)
            inputs = prepare_inputs(recipe, data_dir)
            made[name, streamed] = store.run(
                spec.PREPARE, inputs, lambda folder, recipe=recipe: save_task(recipe, data_dir, folder, store)
            )
    return made


@pytest.mark.parametrize("streamed", [False, True])
def test_a_task_that_names_its_images_by_path_is_made_anew_where_they_moved(
    streamed: bool, data_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "moved").symlink_to(data_dir)
    recipe = recipe_of("folder", streamed)
    shutil.copytree(data_dir, tmp_path / "copy", copy_function=shutil.copy2)
    there, through_a_link, elsewhere = (
        prepare_inputs(recipe, place) for place in (data_dir, tmp_path / "moved", tmp_path / "copy")
    )
    assert there == through_a_link
    assert (there == elsewhere) == (not streamed)


def recipe_of(name: str, streamed: bool, workers: int = 1) -> Recipe:
    """The tiny recipe on a stored set, with dropout, flips, crops and one operation of RandAugment an image."""
    recipe = tiny_recipe()
    return replace(
        recipe,
        data=replace(recipe.data, name=name, streaming=streamed, flip=True),
        network=replace(recipe.network, dropout=0.2),
        pretrain=replace(recipe.pretrain, flips="alternating"),
        finetune=replace(recipe.finetune, epochs=3, rand_augment=5),
        cluster=replace(recipe.cluster, num_workers=workers),
    )


def job_of(tasks: dict, name: str, streamed: bool, folder: Path, kind: str = "finetune", workers: int = 1) -> spec.Job:
    return training_job(tasks[name, streamed], folder, recipe_of(name, streamed, workers), kind)


def same_outcome(one: Path, other: Path) -> bool:
    return all(sha256_of(one / name) == sha256_of(other / name) for name in OUTCOME)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [("folder", "pretrain"), (PARQUET.name, "finetune")])
def test_a_streamed_training_equals_one_in_memory(tasks: dict, name: str, kind: str, tmp_path: Path) -> None:
    in_memory, streamed = (job_of(tasks, name, flag, tmp_path / str(flag), kind) for flag in (False, True))
    run_job(in_memory, ignore)
    run_job(streamed, ignore, streaming.stream_opener(streamed))
    assert same_outcome(tmp_path / "False", tmp_path / "True")


def run_trials(jobs: list[spec.Job], workers: int, storage: Path) -> None:
    Cluster(recipe_of("folder", True, workers).cluster, Storage(storage)).run_jobs(jobs, workers, storage.name)


@pytest.mark.slow
def test_two_trials_that_stream_at_a_time_equal_one_in_memory(tasks: dict, tmp_path: Path) -> None:
    in_memory = job_of(tasks, "folder", False, tmp_path / "in memory")
    run_job(in_memory, ignore)
    run_trials([job_of(tasks, "folder", True, tmp_path / name) for name in ("one", "two")], 1, tmp_path / "storage")
    assert same_outcome(tmp_path / "one", tmp_path / "in memory")
    assert same_outcome(tmp_path / "two", tmp_path / "in memory")


@pytest.mark.slow
def test_a_trial_of_two_workers_that_stream_equals_one_in_memory(tasks: dict, tmp_path: Path) -> None:
    names = {False: tmp_path / "in memory", True: tmp_path / "streamed"}
    jobs = [job_of(tasks, "folder", streamed, folder, workers=2) for streamed, folder in names.items()]
    run_trials(jobs, 2, tmp_path / "storage")
    assert same_outcome(*names.values())


@pytest.mark.slow
def test_a_streamed_training_that_was_stopped_equals_one_that_never_stopped(tasks: dict, tmp_path: Path) -> None:
    whole, stopped = (job_of(tasks, "folder", True, tmp_path / name) for name in ("whole", "stopped"))
    run_job(whole, ignore, streaming.stream_opener(whole))
    with pytest.raises(StoppedError):
        run_job(stopped, stop_after(1), streaming.stream_opener(stopped))
    run_job(stopped, ignore, streaming.stream_opener(stopped))
    assert same_outcome(tmp_path / "whole", tmp_path / "stopped")


def prepared(storage: Path, data_dir: Path, split_index: int = 0) -> tuple[set[str], Artefact]:
    """The stages that ran, and the task of the Parquet files."""
    store, recipe = Storage(storage), recipe_of(PARQUET.name, True)
    recipe = replace(recipe, data=replace(recipe.data, split_index=split_index))
    task = prepare_task(recipe, prepare_inputs(recipe, data_dir), data_dir, store)
    return set(store.ran), task


def truncate(encoded: Path) -> None:
    os.truncate(next(encoded.glob("*/.*")), 1000)


def leave_hidden_files_out(encoded: Path) -> None:
    for path in encoded.glob("*/.*"):
        path.unlink()


@pytest.mark.parametrize("harm", [shutil.rmtree, truncate, leave_hidden_files_out])
def test_parquet_files_are_unpacked_once_for_all_splits_and_again_where_images_are_gone(
    harm: Callable[[Path], None], data_dir: Path, tmp_path: Path
) -> None:
    assert prepared(tmp_path, data_dir)[0] == {"encoded", "prepare"}
    assert prepared(tmp_path, data_dir, 1)[0] == {"prepare"}
    ran, first = prepared(tmp_path, data_dir)
    assert not ran
    images = stored_of(first).decoded()
    harm(tmp_path / "encoded")
    assert prepared(tmp_path, data_dir) == ({"encoded"}, first)
    np.testing.assert_array_equal(stored_of(first).decoded(), images)


def test_the_task_of_parquet_files_moves_with_its_storage(data_dir: Path, tmp_path: Path) -> None:
    _, made = prepared(tmp_path / "first", data_dir)
    images = stored_of(made).decoded()
    (tmp_path / "deep").mkdir()
    (tmp_path / "first").rename(tmp_path / "deep" / "moved")
    ran, found = prepared(tmp_path / "deep" / "moved", data_dir)
    assert not ran
    np.testing.assert_array_equal(stored_of(found).decoded(), images)
    assert prepared(tmp_path / "anew", data_dir)[1].digest == made.digest


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("chunk", "batch_size"), [(1 << 20, 64), (10, 7), (1, 64)])
def test_batches_hold_the_asked_rows_in_the_asked_order_however_they_are_cut_into_tasks(
    tasks: dict, name: str, chunk: int, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "CHUNK_BYTES", chunk * 3 * SIZE**2)
    stored, pixels = stored_of(tasks[name, True]), OpenSetTask.load(tasks[name, False].path).train.images
    rows = np.random.default_rng(batch_size).integers(0, len(stored), 65)  # some more than once
    batches = list(RayImages(stored, 2).batches(rows, batch_size))
    assert [len(batch) for batch in batches] == [*[batch_size] * (65 // batch_size), 65 % batch_size]
    np.testing.assert_array_equal(np.concatenate(batches), pixels[rows])


def stored_of(task: Artefact) -> StoredImages:
    return OpenSetTask.load(task.path).train.images


def test_an_epoch_that_is_left_early_leaves_the_next_one_as_it_is(tasks: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "CHUNK_BYTES", 8 * 3 * SIZE**2)
    images, rows = RayImages(stored_of(tasks["folder", True]), 2), np.arange(200)
    left = images.batches(rows, 8)
    next(left)
    left.close()
    again = list(images.batches(rows, 8))
    np.testing.assert_array_equal(np.concatenate(again), stored_of(tasks["folder", True]).read(rows))


@pytest.fixture
def own_images(tmp_path: Path) -> StoredImages:
    """A prepared folder of images that a test may damage."""
    root = write_parts(tmp_path / "own", SIZE, {"train": 40, "test": 10})
    folder = tmp_path / "task"
    folder.mkdir()
    save_task(recipe_of("folder", True), root, folder)
    return stored_of(write_manifest(folder, {}))


@pytest.mark.slow
def test_a_damaged_image_ends_every_rank_and_is_named(own_images: StoredImages, tmp_path: Path) -> None:
    """The rank whose image it is would else leave the others waiting for its gradients, for half an hour."""
    path = Path(os.fsdecode(own_images.files[own_images.places[0]["file"]]))
    path.write_bytes(b"no image")
    task = Artefact(tmp_path / "task", "")
    run_trials([training_job(task, tmp_path / "trial", recipe_of("folder", True, 2))], 2, tmp_path / "storage")
    assert path.name in (tmp_path / "trial" / spec.FAILURE).read_text()


@pytest.mark.parametrize(("damage", "words"), [("gone", "cannot be read"), ("damaged", "cannot be decoded")])
def test_an_image_that_fails_while_training_is_named(own_images: StoredImages, damage: str, words: str) -> None:
    path = Path(os.fsdecode(own_images.files[own_images.places[0]["file"]]))
    path.unlink() if damage == "gone" else path.write_bytes(b"no image")
    with pytest.raises(DataError, match=rf"^[^\n]*{path.name}[^\n]*{words}[^\n]*$"):
        list(RayImages(own_images, 1).batches(np.arange(4), 2))
