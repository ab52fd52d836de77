from dataclasses import replace

import numpy as np
import pytest
from small_tasks import digits_config, loaded_again, random_images, small_task
from streamed_images import Streamed

from proser_core.config import DataConfig, Recipe
from proser_core.data import catalogue as sources
from proser_core.data.catalogue import Source
from proser_core.data.data_sets import open_data_set
from proser_core.data.image_sets import ImageSet
from proser_core.data.preparation import _targets, make_task
from proser_core.data.readers.layout import Embedded
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError, DataError, ProserError
from proser_core.jobs.preparing import prepare_inputs
from proser_core.recognition.metrics import evaluate_settings
from proser_core.recognition.scoring import OpenSetScores


@pytest.fixture(scope="module")
def task() -> OpenSetTask:
    return make_task(digits_config(), None, seed=0)


def as_set(images: np.ndarray) -> set[bytes]:
    return {image.tobytes() for image in images}


def test_training_and_validation_share_no_row_and_make_up_the_known_training_images(task):
    known = open_data_set("digits", None).load("train", size=8, classes=task.split.known)
    assert len(task.train) + len(task.val) == len(known)
    assert as_set(task.train.images) | as_set(task.val.images) == as_set(known.images)
    assert set(task.train.targets.tolist()) == set(task.val.targets.tolist()) == set(range(5))


def test_targets_are_the_positions_in_the_split_and_names_follow_them(task):
    for name in ("train", "val"):
        part = getattr(task, name)
        for target, class_id in enumerate(task.split.known):
            of_class = as_set(open_data_set("digits", None).load("train", size=8, classes=[class_id]).images)
            assert as_set(part.images[part.targets == target]) <= of_class
    assert task.class_names == tuple(str(class_id) for class_id in task.split.known)


def test_test_images_of_unknown_classes_have_the_target_unknown(task):
    for class_id, target in zip(task.test_classes.tolist(), task.test.targets.tolist(), strict=True):
        expected = task.split.known.index(class_id) if class_id in task.split.known else task.num_known
        assert target == expected
    assert set(task.test_classes.tolist()) == set(task.split.known + task.split.unknown)


def test_unknown_classes_of_another_data_set_follow_with_ids_of_their_own(monkeypatch):
    """Class 3 of the one set is known, class 3 of the other is not."""
    others = ImageSet(random_images(40), np.arange(40) % 8, tuple(f"letter {number}" for number in range(8)))
    letters = Source("letters", 8, {"train": 0, "test": 40}, layouts=(Embedded(lambda part, size: others),))
    monkeypatch.setitem(sources.SOURCES, "letters", letters)
    config = digits_config(unknown="letters", unknown_settings=(2, 6), development="held-out-5")
    task = make_task(config, None, seed=0)
    assert set(task.split.known) | set(task.split.development) == set(range(10))
    foreign = [number - 10 for number in task.split.unknown]
    assert len(foreign) == 6
    is_known = task.test.targets < 5
    known = open_data_set("digits", None).load("test", size=8, classes=task.split.known)
    assert as_set(task.test.images[is_known]) == as_set(known.images)
    np.testing.assert_array_equal(task.test.images[~is_known], others.images[np.isin(others.labels, foreign)])
    assert set(task.test_classes[~is_known].tolist()) == set(task.split.unknown)
    scores = OpenSetScores(np.zeros(len(task.test), int), (~is_known).astype(float), num_known=5, bias=-0.5)
    metrics = evaluate_settings(scores, task.test.targets, task.test_classes, task.split)
    assert [metrics.settings[setting].auroc for setting in (2, 6)] == [1.0, 1.0]
    assert prepare_inputs(Recipe(data=config), None)["data"]["unknown"] == "letters"


def test_unknown_class_zero_is_not_known_and_counts_as_unknown_in_the_metrics():
    split = ClassSplit(known=(4, 1), unknown=(0,), settings=(1,))
    class_ids = np.array([4, 1, 0, 0])
    assert _targets(class_ids, split).tolist() == [0, 1, 2, 2]
    scores = OpenSetScores(np.array([0, 1, 0, 0]), np.array([-2.0, -1.0, 1.0, 2.0]), num_known=2, bias=0.0)
    metrics = evaluate_settings(scores, _targets(class_ids, split), class_ids, split)
    assert metrics.settings[1].macro_f1 == 1.0
    assert metrics.settings[1].auroc == 1.0
    assert metrics.closed_set_accuracy == 1.0


def test_development_images_are_of_held_out_classes_and_as_many_as_validation_images(task):
    pool = open_data_set("digits", None).load("train", size=8, classes=task.split.development)
    assert as_set(task.development.images) <= as_set(pool.images)
    assert len(task.development) == len(task.val)
    assert set(task.development.targets.tolist()) == {task.num_known}


def test_development_images_are_those_that_the_seed_draws(task):
    again, other = (make_task(digits_config(), None, seed=seed) for seed in (0, 1))
    assert as_set(again.development.images) == as_set(task.development.images) != as_set(other.development.images)


def test_development_unknowns_from_the_data_set_itself_are_refused():
    with pytest.raises(ProserError, match="development"):
        make_task(digits_config(development="digits"), None, seed=0)


@pytest.mark.parametrize(("name", "unknown"), [("digits", "mnist"), ("mnist", "digits"), ("mnist", "svhn")])
def test_unknown_classes_that_are_the_known_ones_in_another_data_set_are_refused(name, unknown):
    with pytest.raises(ConfigError, match=f"data.unknown is {unknown}, which shares classes or images with {name}"):
        make_task(digits_config(name=name, unknown=unknown), None, seed=0)


def test_a_task_of_all_classes_is_refused_with_what_to_give():
    config = digits_config(num_known=0, unknown_settings=(), development="none")
    with pytest.raises(ConfigError, match=r"data\.num_known is 0, .*give the number of known classes"):
        make_task(config, None)


@pytest.mark.parametrize("of_digits", ["mnist", "svhn"])
def test_development_unknowns_of_the_known_classes_are_refused(of_digits):
    with pytest.raises(ConfigError, match=f"is {of_digits}, which shares classes or images with digits"):
        make_task(digits_config(development=of_digits), None, seed=0)


@pytest.mark.parametrize("of_digits", ["mnist", "svhn", "digits"])
def test_development_unknowns_of_the_images_that_an_outlier_set_is_made_of_are_refused(of_digits):
    config = DataConfig(
        name="cifar10", num_known=10, unknown_settings=(), outliers=("mnist-noise",), development=of_digits
    )
    with pytest.raises(ConfigError, match=f"is {of_digits}, which shares classes or images with mnist-noise"):
        make_task(config, None, seed=0)


def test_mean_and_deviation_are_of_the_training_images(task):
    pixels = task.train.images.reshape(-1, 3) / 255.0
    np.testing.assert_allclose(task.mean, pixels.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(task.std, pixels.std(axis=0), rtol=1e-9)


def test_a_given_normalisation_takes_their_place():
    task = make_task(digits_config(normalisation=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6)), None, seed=0)
    assert (task.mean, task.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))


def test_the_same_seed_makes_the_same_task_and_another_another_validation_set(task):
    again, other = make_task(digits_config(), None, seed=0), make_task(digits_config(), None, seed=1)
    np.testing.assert_array_equal(again.val.images, task.val.images)
    np.testing.assert_array_equal(again.development.images, task.development.images)
    assert as_set(other.val.images) != as_set(task.val.images)
    np.testing.assert_array_equal(other.test.images, task.test.images)


@pytest.mark.parametrize("make", [small_task, lambda: make_task(digits_config(), None, seed=0)])
def test_a_saved_task_comes_back_as_it_was_and_cannot_be_written_to(tmp_path, make):
    loaded = loaded_again(make(), tmp_path / "task", expected=make())
    with pytest.raises(ValueError, match="read-only"):
        loaded.train.images[0] = 0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"class_names": ("dog",)}, "class_names has 1 name; need 2"),
        ({"class_names": ("dog", "dog")}, "'dog' would mean two things"),
        ({"test_classes": np.zeros(11, int)}, r"test_classes has the shape \(11,\); need \(12,\), a class id for each"),
    ],
)
def test_a_task_whose_names_or_class_ids_do_not_fit_is_refused_before_any_training(fields, words):
    with pytest.raises(DataError, match=words):
        replace(small_task(), **fields)


def test_images_that_only_another_process_could_read_are_not_saved_without_a_word(task, tmp_path):
    elsewhere = replace(task.train, images=Streamed(task.train.images))
    with pytest.raises(TypeError, match="train images are Streamed; need an array or StoredImages"):
        replace(task, train=elsewhere).save(tmp_path)
