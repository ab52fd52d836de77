import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from proser_core.config import (
    CalibrationConfig,
    ClusterConfig,
    DataConfig,
    FinetuneConfig,
    NetworkConfig,
    PretrainConfig,
    Recipe,
    from_json,
    to_json,
)
from proser_core.data.splits.class_split import ClassSplit
from proser_core.errors import ConfigError
from proser_core.naming import look_up
from proser_core.recognition.calibration import Calibration
from proser_core.rng import keyed_generator, keyed_seed

BAD_FIELDS = [
    (FinetuneConfig, "finetune", "num_dummies", 0, "at least 1"),
    (FinetuneConfig, "finetune", "num_dummies", 1_000_000_000, "at most 10,000"),
    (DataConfig, "data", "image_size", 100_000, "at most 4,096"),
    (FinetuneConfig, "finetune", "alpha", 0.0, "above 0"),
    (FinetuneConfig, "finetune", "alpha", math.inf, "finite"),
    (FinetuneConfig, "finetune", "beta", -0.1, "at least 0"),
    (FinetuneConfig, "finetune", "beta", math.nan, "finite"),
    (FinetuneConfig, "finetune", "gamma", -1.0, "at least 0"),
    (FinetuneConfig, "finetune", "gamma", math.inf, "finite"),
    (FinetuneConfig, "finetune", "batch_size", 7, "even.* use 8"),
    (FinetuneConfig, "finetune", "batch_size", 0, "at least 2"),
    (FinetuneConfig, "finetune", "epochs", 0, "at least 1"),
    (FinetuneConfig, "finetune", "lr", 0.0, "above 0"),
    (FinetuneConfig, "finetune", "optimizer", "muon", "sgd with finetune.start pretrained"),
    (PretrainConfig, "pretrain", "lr", math.nan, "finite"),
    (PretrainConfig, "pretrain", "momentum", 1.0, "below 1"),
    (PretrainConfig, "pretrain", "weight_decay", -1e-4, "at least 0"),
    (CalibrationConfig, "calibration", "target_rate", 0.0, "above 0"),
    (CalibrationConfig, "calibration", "target_rate", 1.01, "at most 1"),
    (CalibrationConfig, "calibration", "target_rate", math.nan, "at most 1"),
    (NetworkConfig, "network", "dropout", 1.0, "below 1"),
    (NetworkConfig, "network", "dropout", -0.1, "at least 0"),
    (DataConfig, "data", "image_size", 4, "at least 8 pixels"),
    (DataConfig, "data", "num_known", 1, "2 to 100,000, or 0 for all"),
    (DataConfig, "data", "num_known", 100_000_000_000, "2 to 100,000"),
    (DataConfig, "data", "unknown_settings", (0, 3), "positive"),
    (DataConfig, "data", "unknown_settings", (3, 1), "increasing"),
    (DataConfig, "data", "unknown_settings", (3, 3), "increasing"),
    (DataConfig, "data", "split_index", -1, "0 or more"),
    (DataConfig, "data", "val_fraction", 0.0, "between 0 and 1"),
    (DataConfig, "data", "val_fraction", 1.0, "between 0 and 1"),
    (DataConfig, "data", "padding", -1, "0 or more"),
    (DataConfig, "data", "padding", 32, "below the image size"),
    (DataConfig, "data", "development", "held-out-0", "like held-out-2"),
    (DataConfig, "data", "development", "held-out-x", "like held-out-2"),
    (DataConfig, "data", "development", "held-out-" + 5_000 * "9", "like held-out-2"),
    (DataConfig, "data", "development", "held-out-²", "like held-out-2"),
    (ClusterConfig, "cluster", "num_workers", 0, "at least 1"),
    (ClusterConfig, "cluster", "pretrain_workers", 0, "at least 1"),
    (ClusterConfig, "cluster", "cpus_per_worker", 0, "at least 1"),
    (ClusterConfig, "cluster", "gpus_per_worker", -1.0, "at least 0"),
    (ClusterConfig, "cluster", "gpus_per_worker", 1.5, "a whole number above 1"),
    (ClusterConfig, "cluster", "max_concurrent", -1, "0 or more"),
]
OTHER_TYPES = [
    (PretrainConfig, "epochs", "3", "pretrain.epochs is '3'; need a whole number"),
    (PretrainConfig, "epochs", 1.5, "pretrain.epochs is 1.5; need a whole number"),
    (FinetuneConfig, "lr", "0.1", "finetune.lr is '0.1'; need a number"),
    (DataConfig, "image_size", 8.0, "data.image_size is 8.0; need a whole number"),
    (DataConfig, "unknown_settings", (15, "30"), r"data.unknown_settings\[1\] is '30'; need a whole number"),
    (Recipe, "data", {"name": "digits"}, "data is {'name': 'digits'}; need a DataConfig"),
]


@pytest.mark.parametrize("level", ["0", "00", 5_000 * "9"])
def test_a_folder_level_that_is_none_is_refused(level):
    with pytest.raises(ConfigError, match=r"^data\.group_by .*1 or more for a folder level"):
        DataConfig(name="folder", num_known=0, unknown_settings=(), development="", group_by=level)


@pytest.mark.parametrize(("block", "prefix", "name", "value", "need"), BAD_FIELDS)
def test_a_bad_field_is_refused_with_what_was_got_and_what_is_needed(block, prefix, name, value, need):
    with pytest.raises(ConfigError, match=rf"(?s)^{prefix}\.{name} .*{need}") as caught:
        block(**{name: value})
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("features", ["auto", "frozen", "head-first", "trained"])
def test_muon_trains_no_pretrained_weights(features):
    """It would scale each convolution anew."""
    network = NetworkConfig(backbone="timm:resnet18", weights_file="weights.pth", features=features)
    muon = PretrainConfig(optimizer="muon")
    if features == "trained":
        with pytest.raises(
            ConfigError, match=r"^pretrain\.optimizer is muon, which would undo the pretrained weights of"
        ):
            Recipe(network=network, pretrain=muon)
    else:
        assert Recipe(network=network, pretrain=muon).pretrain == muon
    assert Recipe(network=replace(network, weights_file=""), pretrain=muon).pretrain == muon
    scratch = FinetuneConfig(start="scratch")
    if features == "head-first":
        with pytest.raises(ConfigError, match=r"with finetune\.start scratch no head is trained first"):
            Recipe(network=network, finetune=scratch)
    else:
        assert Recipe(network=network, finetune=scratch).finetune == scratch


@pytest.mark.parametrize("workers", ["num_workers", "pretrain_workers"])
def test_two_workers_of_a_training_share_no_gpu(workers):
    assert ClusterConfig(gpus_per_worker=0.25).uses_gpu
    assert ClusterConfig(gpus_per_worker=2.0, **{workers: 2}).uses_gpu
    with pytest.raises(ConfigError, match=r"^cluster\.gpus_per_worker .*0\.5.*a whole number"):
        ClusterConfig(gpus_per_worker=0.5, **{workers: 2})


@pytest.mark.parametrize(
    ("block", "name"),
    [
        (FinetuneConfig, "objective"),
        (FinetuneConfig, "mixup"),
        (FinetuneConfig, "mixture_batch_norm"),
        (FinetuneConfig, "schedule"),
        (PretrainConfig, "schedule"),
        (Recipe, "precision"),
    ],
)
def test_a_mistyped_choice_is_refused_and_does_not_stand_for_another(block, name):
    with pytest.raises(ConfigError, match=f"{name} is called 'mistyped'"):
        block(**{name: "mistyped"})


@pytest.mark.parametrize(
    ("cluster", "batch_size", "message"),
    [
        (
            {"num_workers": 3},
            128,
            r"finetune.batch_size 128 cannot be cut into two equal halves on each of 3 workers"
            r".*multiple of 6 \(126 or 132\).*cluster.num_workers to 1, 2",
        ),
        ({"num_workers": 8}, 4, r"multiple of 16 \(16\), or set cluster.num_workers to 1, 2"),
        ({"pretrain_workers": 3}, 128, r"pretrain.batch_size 64 .* 3 workers; use a multiple of 3 \(63 or 66\)"),
    ],
)
def test_a_batch_that_workers_cannot_share_is_refused_with_multiples_and_worker_counts(cluster, batch_size, message):
    with pytest.raises(ConfigError, match=message):
        Recipe(finetune=FinetuneConfig(batch_size=batch_size), cluster=ClusterConfig(**cluster))


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 100), st.sampled_from(["shared", "separate"]))
@example(1, 2, 2, "separate")  # of two workers each would normalise one image
def test_a_refused_batch_of_a_changing_number_of_workers_has_remedies_that_work(fewest, more, pairs, batch_norm):
    cluster = ClusterConfig(num_workers=fewest + more, min_workers=fewest)
    finetune = FinetuneConfig(batch_size=2 * pairs, mixture_batch_norm=batch_norm)
    try:
        Recipe(finetune=finetune, cluster=cluster)
    except ConfigError as error:
        found = re.search(r"cannot be cut .*\(([\d or]+)\)(?:, or set cluster.num_workers to (.*))?$", str(error))
        assume(found)  # else a batch is too small for batch norm
        for size in found[1].split(" or "):
            assert Recipe(finetune=replace(finetune, batch_size=int(size)), cluster=cluster)
        for count in found[2].split(", ") if found[2] else ():
            assert Recipe(finetune=finetune, cluster=replace(cluster, num_workers=int(count)))


@given(st.integers(1, 12), st.integers(1, 200))
def test_a_recipe_is_accepted_exactly_when_each_worker_gets_two_equal_halves(workers, pairs):
    make = {"finetune": FinetuneConfig(batch_size=2 * pairs), "cluster": ClusterConfig(num_workers=workers)}
    if pairs % workers == 0:
        assert Recipe(**make).finetune.batch_size == 2 * pairs
    else:
        with pytest.raises(ConfigError, match="cannot be cut"):
            Recipe(**make)


def test_a_part_of_one_image_which_batch_norm_cannot_normalise_is_refused():
    pair = FinetuneConfig(batch_size=2)
    assert Recipe(finetune=pair).finetune.batch_size == 2, "its halves are normalised together"
    assert Recipe(finetune=replace(pair, mixture_batch_norm="separate", batch_use="all")).finetune.batch_size == 2
    with pytest.raises(ConfigError, match=r"finetune.batch_size 2 .* in 2 parts of one image.* use 4 or more"):
        Recipe(finetune=replace(pair, mixture_batch_norm="separate"))
    with pytest.raises(ConfigError, match=r"finetune.batch_size 8 .* in 8 parts .* use 16 or more"):
        Recipe(
            finetune=FinetuneConfig(batch_size=8, mixture_batch_norm="separate"), cluster=ClusterConfig(num_workers=4)
        )
    with pytest.raises(ConfigError, match=r"pretrain.batch_size 4 .* in 4 parts .* use 8 or more"):
        Recipe(pretrain=PretrainConfig(batch_size=4), cluster=ClusterConfig(pretrain_workers=4))


@pytest.mark.parametrize(
    ("name", "value"), [("seed", -1), ("seed", 10**20), ("model_name", ""), ("model_name", "m" * 5_000)]
)
def test_a_bad_field_of_the_recipe_itself_is_refused(name, value):
    with pytest.raises(ConfigError, match=f"^{name} is {value!r}"):
        Recipe(**{name: value})


RECIPES = st.builds(
    Recipe,
    seed=st.integers(0, 2**62),
    data=st.builds(
        DataConfig,
        num_known=st.integers(2, 50),
        unknown_settings=st.sets(st.integers(1, 90)).map(lambda numbers: tuple(sorted(numbers))),
        val_fraction=st.floats(0.01, 0.99),
        development=st.sampled_from(["cifar10", "held-out-3"]),
    ),
    finetune=st.builds(
        FinetuneConfig, beta=st.floats(0, 1e6), gamma=st.floats(0, 1e6), mixup=st.sampled_from(["manifold", "vanilla"])
    ),
)


@pytest.mark.parametrize(("block", "name", "value", "message"), OTHER_TYPES)
def test_a_field_of_another_type_is_refused_as_in_a_file(block, name, value, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        block(**{name: value})


def test_numbers_of_numpy_are_those_of_python_in_a_recipe():
    optimizer = PretrainConfig(epochs=np.int64(3), lr=np.float32(0.5), momentum=0)
    data = DataConfig(num_known=np.uint8([4]).max(), flip=np.bool_(False), unknown_settings=(np.int64(2),))
    recipe = Recipe(seed=np.int32(7), data=data, pretrain=optimizer)
    assert from_json(Recipe, to_json(recipe)) == recipe
    assert (type(optimizer.lr), type(optimizer.momentum), data.flip) == (float, float, False)


@given(RECIPES)
def test_a_recipe_survives_the_way_through_a_json_file(recipe):
    assert from_json(Recipe, json.loads(json.dumps(to_json(recipe)))) == recipe


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (Recipe, {"pretrain": {"epochs": "ten"}}, r"^Recipe\.pretrain\.epochs is 'ten'; need a whole number$"),
        (
            Recipe,
            {"data": {"unknown_settings": [1, "2"]}},
            r"^Recipe\.data\.unknown_settings\[1\] is '2'; need a whole",
        ),
        (
            Recipe,
            {"data": {"prefix": "x"}},  # of the class, and no field
            r"^no field of Recipe\.data is called 'prefix'.*: (?!.*\bprefix;)",
        ),
        (Recipe, {"data": 5}, r"^Recipe\.data is 5; need an object of its fields"),
        (
            Recipe,
            {"finetune": {"betta": 1.0}},
            r"^no field of Recipe\.finetune is called 'betta'; did you mean 'beta'\?",
        ),
        (Recipe, {"finetune": {"num_dummies": 0}}, r"finetune\.num_dummies is 0"),
        (ClassSplit, {"known": "01", "unknown": [], "settings": []}, r"^ClassSplit\.known is '01'; need a list$"),
        (ClassSplit, {"known": [0, 1.5], "unknown": [], "settings": []}, r"known\[1\] is 1\.5; need a whole number"),
        (ClassSplit, {"known": [0], "unknown": [], "settings": [None]}, r"settings\[0\] is None; need .* or a string"),
        (ClassSplit, {"known": [0, 1]}, r"^ClassSplit is incomplete: it lacks unknown, settings$"),
        (Calibration, {"interval": [0.9]}, r"^Calibration\.interval has 1 values; need 2$"),
        (Calibration, {"bias": True}, r"^Calibration\.bias is True; need a number$"),
    ],
)
def test_values_that_do_not_suit_are_refused_by_field_with_what_was_got_and_is_needed(cls, values, message):
    with pytest.raises(ConfigError, match=message):
        from_json(cls, values)


def test_held_out_development_classes_are_counted():
    assert DataConfig(development="held-out-12").num_development == 12
    assert DataConfig(development="cifar10").num_development == 0


def test_look_up_finds_a_name_and_suggests_the_nearest_for_a_mistyped_one():
    options = {"classifier32": 1, "resnet18": 2}
    assert look_up("backbone", "resnet18", options) == 2
    with pytest.raises(ConfigError, match=r"no backbone is called 'resnet81'; did you mean 'resnet18'\?") as caught:
        look_up("backbone", "resnet81", options)
    assert str(caught.value).endswith("Available: classifier32; resnet18"), "some names have commas"
    with pytest.raises(ConfigError) as caught:
        look_up("backbone", "zzz", options)
    assert "did you mean" not in str(caught.value)


KEYS = st.tuples(st.integers(0, 2**62), st.text(max_size=8), st.integers(0, 10**6), st.integers(0, 10**6))


@given(KEYS)
def test_draws_depend_on_their_key_alone(key):
    first = keyed_generator(*key).random(4)
    keyed_generator(0, "something else").random(100)
    assert (keyed_generator(*key).random(4) == first).all()
    assert keyed_seed(*key) == keyed_seed(*key)
    assert 0 <= keyed_seed(*key) < 2**63


@given(KEYS, KEYS)
def test_different_keys_draw_differently(first, second):
    assert (keyed_seed(*first) == keyed_seed(*second)) == (first == second)


def test_the_draws_of_a_key_are_the_same_in_every_version():
    assert keyed_generator(7, "order", 3).integers(0, 1000, 4).tolist() == [158, 119, 212, 511]
