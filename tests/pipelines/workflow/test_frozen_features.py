"""A run on a frozen backbone: no Ray, embeddings once, and a registered classifier that takes images."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from frozen_features import SIZE, weights_of_timm
from PIL import Image
from pipeline_runs import RunFolder, printed

from pipelines.cluster.cluster import Cluster
from pipelines.commands.run import run_recipe
from pipelines.recipes import folder_pretrained
from pipelines.tracking.models import load
from pipelines.workflow.checks import decide_features
from pipelines.workflow.requests import RunRequest
from pipelines.workflow.stages.waiting import first_epoch
from proser_core.config import NetworkConfig, Recipe, from_json
from proser_core.errors import ConfigError
from proser_core.jobs.spec import EMBEDDINGS, Job

pytestmark = pytest.mark.usefixtures("empty_figures", "empty_programs", "without_ray")


@pytest.fixture(scope="module")
def my_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four classes of different brightness, 15 images each."""
    root, noise = tmp_path_factory.mktemp("my_images"), np.random.default_rng(0)
    for number, name in enumerate(("black", "dark", "light", "white")):
        (root / name).mkdir()
        for index in range(15):
            pixels = noise.integers(0, 40, (SIZE, SIZE, 3)) + 70 * number
            Image.fromarray(pixels.astype(np.uint8)).save(root / name / f"{index}.png")
    return root


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    path = weights_of_timm(tmp_path_factory.mktemp("weights"))
    usual = folder_pretrained()
    return replace(
        usual,
        precision="fp32",
        data=replace(usual.data, image_size=SIZE),
        network=NetworkConfig(backbone="timm:test_efficientnet", weights_file=str(path)),
    )


@pytest.mark.slow
def test_a_run_embeds_each_image_once_and_registers_the_whole_network(
    recipe: Recipe, my_images: Path, run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, train = list[str](), Cluster._run_here

    def watched(cluster: Cluster, jobs: list[Job], *others: Any) -> None:
        said.append(first_epoch(Mock(cluster=cluster), from_json(Recipe, jobs[0].recipe), jobs[0].kind, 0))
        train(cluster, jobs, *others)

    monkeypatch.setattr(Cluster, "_run_here", watched)
    code, text = printed(run_recipe, RunRequest(recipe, my_images, run_folder.storage))
    assert code == 0
    assert said == [""] * 4, "of pretraining and sweep, of the proxy and of all classes: Ray is not said to start"
    assert (
        "images of 32 pixels, an embedding of 256, features frozen (auto: no GPU is used), mixtures of embeddings"
        in text
    )
    assert "all 4 classes, with what the proxy chose: " in text, "the network, of a single point"
    assert len(list((run_folder.storage / EMBEDDINGS).iterdir())) == 2, "of the proxy and of all classes"
    classifier = load("models:/proser@champion").classifier
    assert classifier.normalisation == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    pixels = np.stack([np.array(Image.open(path)) for path in sorted(my_images.glob("*/0.png"))])
    assert list(classifier.predict(pixels).probabilities[:, :4].argmax(1)) == [0, 1, 2, 3]
    again, text = printed(run_recipe, RunRequest(recipe, my_images, run_folder.storage))
    assert again == 0
    assert "every stage was already finished" in text
    planned, text = printed(run_recipe, RunRequest(recipe, my_images, run_folder.storage, dry_run=True))
    assert planned == 0
    assert "to decode" not in text
    assert not re.search(r"embeddings +\d", text)


def test_the_plan_of_such_a_run_starts_no_ray_and_measures_the_backbone(
    recipe: Recipe, my_images: Path, run_folder: RunFolder
) -> None:
    storage = run_folder.root / "planned"
    code, text = printed(run_recipe, RunRequest(recipe, my_images, storage, dry_run=True))
    assert code == 0
    assert "features frozen" in text
    assert "1 at a time" in text
    assert re.search(r"photos +60 to decode, about \d+:\d\d \(.* ms each on all cores, measured now\)", text)
    assert text.count("to decode") == 1, "once for the proxy and all classes"
    embeds = re.findall(r"embeddings +(\d+) images, about \d+:\d\d \(.* ms each, measured now\)", text)
    assert len(embeds) == 2
    assert sum(map(int, embeds)) == 60, "those of all classes are computed for the proxy already, but for some"
    assert re.search(r"time .*\(photos .*, embeddings .*, pretraining .*, fine-tune .*, evaluate .*\)", text)
    assert "Ray" not in text


def test_frozen_features_of_fresh_weights_are_refused_before_any_work(
    recipe: Recipe, my_images: Path, run_folder: RunFolder
) -> None:
    fresh, storage = replace(recipe, network=NetworkConfig(features="frozen")), run_folder.root / "none"
    with pytest.raises(ConfigError, match="classifier32 has fresh weights, whose embeddings mean nothing"):
        printed(run_recipe, RunRequest(fresh, my_images, storage))
    assert not storage.exists()


def test_every_training_image_counts_where_others_are_for_validation(recipe: Recipe, tmp_path: Path) -> None:
    """By their number, on a GPU, the whole network is fine-tuned or not."""
    for part, count in (("train", 1000), ("val", 1), ("test", 1)):
        for name in ("one", "two"):
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(count):
                (tmp_path / part / name / f"{number}.png").write_bytes(b"x")
    on_a_gpu = replace(recipe, cluster=replace(recipe.cluster, gpus_per_worker=1.0))
    assert decide_features(on_a_gpu, tmp_path).network.features == "head-first"
