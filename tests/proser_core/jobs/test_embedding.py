"""Frozen features: embeddings are computed once, heads are trained on them, and the classifier takes images."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from frozen_features import SIZE, as_artefact, bright_task, frozen_recipe, job_of
from small_tasks import NORMALISATION, random_images
from torchvision import models

from proser_core.config import ClusterConfig, DataConfig, NetworkConfig, Recipe, decisive_network
from proser_core.data.arrays import task_from_arrays
from proser_core.data.tasks import TASK_PARTS, Labelled, OpenSetTask
from proser_core.errors import ConfigError
from proser_core.jobs import spec
from proser_core.jobs.embedding import embed_task, embedded
from proser_core.jobs.in_memory import train
from proser_core.jobs.network_tables import network_tables, trained_network
from proser_core.jobs.probe import measure_heads
from proser_core.jobs.worker import run_job
from proser_core.networks.heads import SMALLEST, STD, load_heads, make_heads
from proser_core.networks.nets import add_placeholders, make_closed_set_net
from proser_core.networks.pretrained import MANY_IMAGES, describe_backbone, with_features, with_pretrained
from proser_core.recognition.embedding_table import compute_embedding_table, task_embeddings
from proser_core.recognition.logit_tables import load_logits
from proser_core.recognition.logits import task_logits
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.store.store import Artefact, Store

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Recipe:
    return frozen_recipe(tmp_path_factory.mktemp("weights"))


def test_embeddings_are_those_of_the_backbone_and_are_computed_once_per_image(recipe, tmp_path):
    store, task = Store(tmp_path / "storage"), bright_task()
    reports: list[tuple[int, int]] = []
    made = embed_task(recipe, as_artefact(task, tmp_path / "a"), store, lambda *each: reports.append(each))
    total = sum(len(getattr(task, part)) for part in TASK_PARTS)
    assert reports[-1] == (total, total)
    net = make_closed_set_net(recipe.network, 3, SIZE, recipe.seed)
    for part in TASK_PARTS:
        expected = compute_embedding_table(net, getattr(task, part).images, (task.mean, task.std), CPU).embeddings
        np.testing.assert_allclose(getattr(embedded(task, made.path), part).images, expected, rtol=1e-4, atol=1e-5)
    again = embed_task(recipe, as_artefact(task, tmp_path / "a"), store, lambda *each: reports.append((-1, -1)))
    assert (again, reports[-1]) == (made, (total, total))


@pytest.mark.parametrize("same", [True, False])
def test_an_image_of_another_task_keeps_its_embedding_where_it_is_normalised_alike(recipe, tmp_path, same):
    """The embeddings of the first task are marked, so that a copy is told from what is computed again."""
    store, first = Store(tmp_path / "storage"), as_artefact(bright_task(), tmp_path / "a")

    def marked(folder: Path) -> None:
        for path in embed_task(recipe, first, Store(tmp_path / "other"), lambda *each: None).path.glob("*.npz"):
            with np.load(path) as arrays:
                np.savez(folder / path.name, embeddings=arrays["embeddings"] + 1000, digests=arrays["digests"])

    store.run(spec.EMBEDDINGS, spec.embedding_inputs(recipe, first), marked)
    second = bright_task()
    second = replace(second, train=replace(second.train, images=second.train.images[::-1].copy()))
    data = recipe.data if same else replace(recipe.data, normalisation=(0.5,) * 6)
    made = embed_task(replace(recipe, data=data), as_artefact(second, tmp_path / "b"), store, lambda *each: None)
    assert (embedded(second, made.path).train.images.min() > 900) == same


def test_an_embedding_is_the_same_bits_whatever_other_tasks_the_storage_holds(recipe, tmp_path, two_threads):
    """The other task leaves few images to be computed."""
    task, other = bright_task(), bright_task()
    other = replace(other, train=Labelled(other.train.images[7:], other.train.targets[7:]))
    assert_embedded_alike(task, recipe, [((task,), 2), ((other, task), 2)], tmp_path)


def test_an_embedding_is_the_same_bits_however_many_threads_torch_has(tmp_path, two_threads):
    path, size = tmp_path / "net.pth", 96
    torch.save(models.mobilenet_v3_small().state_dict(), path)
    network = NetworkConfig(backbone="torchvision:mobilenet_v3_small", weights_file=str(path), features="frozen")
    pixels = random_images(24, size)
    task = task_from_arrays(pixels, np.arange(24) % 3)
    data = DataConfig(image_size=size, num_known=3)
    assert_embedded_alike(task, Recipe(data=data, network=network), [((task,), 1), ((task,), 2)], tmp_path)


def assert_embedded_alike(
    task: OpenSetTask, recipe: Recipe, ways: list[tuple[tuple[OpenSetTask, ...], int]], folder: Path
) -> None:
    """The task's embeddings as the last of some tasks of a storage, each time with other tasks and threads."""
    found = []
    for number, (tasks, threads) in enumerate(ways):
        torch.set_num_threads(threads)
        store = Store(folder / f"storage {number}")
        for index, each in enumerate(tasks):
            made = embed_task(recipe, as_artefact(each, folder / f"{number} {index}"), store, lambda *_: None)
        assert torch.get_num_threads() == threads
        found.append(embedded(task, made.path))
    alone, beside = ([getattr(each, part).images for part in TASK_PARTS] for each in found)
    for first, second in zip(alone, beside, strict=True):
        np.testing.assert_array_equal(first, second)


def trained_heads(recipe: Recipe, task: OpenSetTask, folder: Path) -> tuple[Store, Artefact, list[Path]]:
    """The storage, the task in it, and the folders of heads: pretrained, and fine-tuned from these."""
    store, artefact = Store(folder / "storage"), as_artefact(task, folder / "task")
    embed_task(recipe, artefact, store, lambda *each: None)
    first = job_of(recipe, "pretrain", artefact, store)
    second = job_of(recipe, "finetune", artefact, store, f"{first.folder}/{spec.WEIGHTS}")
    for job in (first, second):
        run_job(job, lambda metrics: None)
    return store, artefact, [Path(job.folder) for job in (first, second)]


@pytest.fixture(scope="module")
def heads_of_a_store(recipe, tmp_path_factory) -> tuple[Store, Artefact, list[Path]]:
    return trained_heads(recipe, bright_task(), tmp_path_factory.mktemp("heads"))


def test_a_job_on_embeddings_writes_heads_whose_logits_are_those_of_the_whole_network(recipe, heads_of_a_store):
    task = bright_task()
    store, artefact, (_, heads) = heads_of_a_store
    net = add_placeholders(make_closed_set_net(recipe.network, 3, SIZE, 1), 2, seed=1)
    load_heads(net, heads / spec.WEIGHTS)
    seen = np.asarray(embedded(task, store.folder("embeddings", spec.embedding_inputs(recipe, artefact))).train.images)
    np.testing.assert_allclose(net.backbone.standardised_by[0], seen.mean(0), rtol=1e-5)
    whole = task_logits(net, task, CPU, with_training=False)
    kept = load_logits(heads / spec.LOGITS)
    for part in ("val", "development", "test"):
        np.testing.assert_allclose(whole[part].known, kept[part].known, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(whole[part].dummies, kept[part].dummies, rtol=1e-3, atol=1e-3)
    assert (kept["val"].known_predictions() == task.val.targets).mean() > 0.9
    assert (heads / spec.WEIGHTS).stat().st_size < 20_000


def test_tables_of_heads_are_made_of_the_embeddings_that_are_there(recipe, heads_of_a_store, monkeypatch):
    task = bright_task()
    store, artefact, folders = heads_of_a_store
    for folder, finetune in zip(folders, (None, recipe.finetune), strict=True):
        net = trained_network(recipe, finetune, 3, folder / spec.WEIGHTS)
        expected = task_embeddings(net, task, CPU, seed=recipe.seed)
        with monkeypatch.context() as patch:
            patch.delattr("proser_core.jobs.network_tables.make_closed_set_net")  # the backbone is not asked
            found = network_tables(recipe, artefact, folder, finetune, store)
        assert found.keys() == expected.keys()
        for part, table in expected.items():
            for name, value in vars(table).items():
                np.testing.assert_allclose(getattr(found[part], name), value, rtol=1e-3, atol=1e-3)


@pytest.fixture(scope="module")
def classifier(recipe) -> OpenSetClassifier:
    return train(bright_task(), recipe)


def test_a_classifier_trained_in_memory_takes_images_and_leaves_the_backbone_as_it_is(recipe, classifier):
    task = bright_task()
    fresh = make_closed_set_net(recipe.network, 3, SIZE, seed=9)
    weights = classifier.net.backbone.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in fresh.backbone.state_dict().items())
    assert (classifier.predict(task.train.images).probabilities[:, :3].argmax(1) == task.train.targets).mean() > 0.9


def test_heads_trained_in_memory_equal_those_of_the_jobs(recipe, tmp_path):
    mean, std = NORMALISATION  # of the recipe, as in a task that is prepared for it
    task, recipe = replace(bright_task(), mean=mean, std=std), replace(recipe, seed=5)
    _, _, (_, heads) = trained_heads(recipe, task, tmp_path)
    of_jobs = add_placeholders(make_closed_set_net(recipe.network, 3, SIZE, 1), 2, seed=1)
    load_heads(of_jobs, heads / spec.WEIGHTS)
    # biases are computed on the way onto the backbone, and rounded as the tensors lie in memory
    torch.testing.assert_close(train(task, recipe).net.state_dict(), of_jobs.state_dict(), rtol=1e-6, atol=0)


def test_a_loaded_classifier_knows_by_what_its_head_saw_embeddings(classifier, tmp_path):
    task = bright_task()
    classifier.save(tmp_path)
    loaded = OpenSetClassifier.load(tmp_path)
    both = [
        compute_embedding_table(each.net, task.val.images, (task.mean, task.std), CPU) for each in (classifier, loaded)
    ]
    assert len(both[0].centre) > 1
    for name, value in vars(both[0]).items():
        np.testing.assert_array_equal(getattr(both[1], name), value)


@pytest.mark.parametrize("seed", range(4))
def test_of_validation_images_a_classifier_of_heads_keeps_as_many_known_as_it_was_calibrated_to(recipe, seed):
    """The image on the border would be lost by other rounding."""
    task = bright_task(240)
    classifier = train(task, replace(recipe, seed=seed))
    known = (classifier.predict(task.val.images).unknown_scores <= 0).mean()
    assert known == pytest.approx(classifier.calibration.known_rate)


def test_head_first_trains_the_whole_network_in_the_end(recipe):
    tuned = replace(recipe.finetune, lr=1e-6)
    recipe = replace(recipe, network=replace(recipe.network, features="head-first"), finetune=tuned)
    classifier = train(bright_task(), recipe)
    fresh = make_closed_set_net(recipe.network, 3, SIZE, seed=0).backbone.state_dict()
    weights = classifier.net.backbone.state_dict()
    assert not torch.equal(weights["stages.conv_stem.weight"], fresh["stages.conv_stem.weight"])
    kept = [name for name in fresh if name.endswith(("running_mean", "running_var"))]
    assert kept
    assert all(torch.equal(weights[name], fresh[name]) for name in kept), "the head was trained on these statistics"


def test_a_whole_network_that_barely_moves_is_as_good_as_its_head(recipe):
    """By the statistics of the batch its features would not be those that the head was trained on."""
    task, tiny = bright_task(), replace(recipe.finetune, lr=1e-12, objective="cross_entropy", epochs=1)
    heads, whole = (
        train(task, replace(recipe, network=replace(recipe.network, features=features), finetune=tiny))
        for features in ("frozen", "head-first")
    )
    images = task.val.images
    np.testing.assert_allclose(
        whole.predict(images).probabilities, heads.predict(images).probabilities, rtol=1e-2, atol=1e-3
    )


def test_features_are_chosen_by_weights_images_and_hardware(recipe):
    auto = replace(recipe, network=replace(recipe.network, features="auto"))
    on_gpu = replace(auto, cluster=ClusterConfig(gpus_per_worker=1.0))
    from_scratch = replace(on_gpu, finetune=replace(on_gpu.finetune, start="scratch"))
    fresh = replace(auto, network=replace(auto.network, weights_file=""))
    chosen = [
        with_features(each, count).network.features
        for each, count in (
            (auto, 10**6),
            (on_gpu, MANY_IMAGES - 1),
            (on_gpu, MANY_IMAGES),
            (from_scratch, MANY_IMAGES),
            (fresh, 10),
            (Recipe(), 10),
        )
    ]
    assert chosen == ["frozen", "frozen", "head-first", "trained", "trained", "trained"]
    assert with_features(recipe, 10**6) == recipe
    with pytest.raises(ConfigError, match="classifier32 has fresh weights, whose embeddings mean nothing"):
        with_features(Recipe(network=NetworkConfig(features="frozen")), 10)


def test_a_whole_network_that_is_chosen_is_fine_tuned_at_a_lower_rate_and_the_plan_says_why(recipe: Recipe) -> None:
    asked = replace(recipe, network=replace(recipe.network, features="auto"), cluster=ClusterConfig(gpus_per_worker=1))
    asked = replace(asked, finetune=replace(asked.finetune, lr=0.005, weight_decay=0.1))
    few, many = (with_features(asked, count) for count in (MANY_IMAGES - 1, MANY_IMAGES))
    assert few.finetune == asked.finetune
    assert many.finetune == replace(asked.finetune, lr=0.0005, weight_decay=5e-4)
    assert with_features(many, MANY_IMAGES) == many, "lowered once"
    given = replace(asked, network=replace(asked.network, features="head-first"))
    assert with_features(given, MANY_IMAGES).finetune == asked.finetune, "what is asked for stays"
    assert "features frozen (auto: a GPU, and fewer than 2,000 training images)" in describe_backbone(few, "auto", 10)
    assert (
        "features head-first (auto: a GPU, and at least 2,000 training images; the whole network is fine-tuned in the "
        "end, learning rate 0.0005)" in describe_backbone(many, "auto", MANY_IMAGES)
    )


def test_features_are_chosen_for_the_fine_tune_of_the_method(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Head-first, which suits the recipe's own, would be refused; the next mistake is named instead."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("proser_core.networks.pretrained.MANY_IMAGES", 1)
    asked = replace(recipe, network=replace(recipe.network, features="auto"), cluster=ClusterConfig(gpus_per_worker=1))
    asked = replace(asked, pretrain=replace(asked.pretrain, batch_size=5000))
    with pytest.raises(ConfigError, match=r"finetune\.batch_size 5000 is more than the"):
        train(bright_task(), asked, "PROSER, from scratch")


@pytest.mark.parametrize("features", ["auto", "trained"])
def test_features_that_are_trained_leave_older_keys(recipe: Recipe, features: Any) -> None:
    assert "features" not in decisive_network(replace(recipe.network, features=features))


@pytest.mark.parametrize("kind", ["pretrain", "finetune"])
def test_a_step_on_embeddings_is_measured_without_images(recipe, kind):
    elastic = replace(recipe.cluster, num_workers=2, min_workers=1)
    cost = measure_heads(kind, replace(recipe, network=replace(recipe.network, weights_file=""), cluster=elastic))
    assert cost.step_seconds > 0
    assert cost.scored_per_second > 0
    assert cost.weight_bytes < 20_000


def test_preparing_the_recipe_again_changes_nothing(recipe):
    assert with_pretrained(recipe) == recipe


@pytest.mark.parametrize(("features", "frozen"), [("frozen", ["pretrain", "finetune"]), ("head-first", ["pretrain"])])
def test_networks_of_methods_own_never_see_embeddings(features: Any, frozen: list[str]) -> None:
    network = NetworkConfig(features=features)
    assert [kind for kind in ("pretrain", "finetune", "own") if network.is_frozen(kind)] == frozen


def test_a_feature_that_hardly_moves_is_divided_by_a_tenth_of_the_mean_deviation() -> None:
    spread = np.array([1, 1, 1, 1, 10, 1e-4], np.float32)
    embeddings = np.random.default_rng(0).standard_normal((200, 6), np.float32) * spread
    own = embeddings.std(axis=0)
    divided_by = make_heads(embeddings, 3, seed=0).state_dict()[STD].numpy()
    np.testing.assert_allclose(divided_by, [*own[:5], 0.1 * own.mean()], rtol=1e-5)
    assert SMALLEST == 0.1
    assert (make_heads(embeddings[:1], 3, seed=0).state_dict()[STD] > 0).all(), "of one image none moves"
