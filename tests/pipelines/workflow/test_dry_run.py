"""`proser run --dry-run`: what would be trained, what is found finished, and how long it takes; nothing is left."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from digit_folders import write_digits
from http_servers import server_answering
from PIL import Image
from pipeline_runs import printed
from training_jobs import tiny_recipe

from pipelines.cluster.cluster import Cluster
from pipelines.commands.run import run_recipe
from pipelines.recipes import RECIPES
from pipelines.workflow import checks, training
from pipelines.workflow.requests import RunRequest
from pipelines.workflow.session import announce
from proser_core.config import ClusterConfig, Recipe
from proser_core.data.readers import digits
from proser_core.errors import DataError, TrackingError
from proser_core.networks import pretrained
from proser_core.store.store import Store
from tune_spaces import space_info

pytestmark = pytest.mark.usefixtures("trains_here")


@pytest.fixture(autouse=True)
def tracked_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")


def planned(
    recipe: Recipe, data_dir: Path | None, folder: Path, weights: Path | None = None, width: int = 200
) -> tuple[int, str]:
    return printed(run_recipe, RunRequest(recipe, data_dir, folder / "storage", weights, dry_run=True), width=width)


def test_a_driver_without_a_gpu_says_that_the_clusters_do_not_embed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for address, says in (("auto", True), ("", False)):
        recipe = replace(tiny_recipe(), cluster=ClusterConfig(address=address, gpus_per_worker=1.0))
        _, text = printed(announce, "tiny", recipe, recipe, None, tmp_path)
        assert ("torch finds no GPU on this machine: embeddings and evaluation run on its CPU" in text) == says


def test_mirrored_images_that_no_training_shows_are_warned_of(tmp_path: Path) -> None:
    recipe = tiny_recipe()
    mirrored = replace(recipe, calibration=replace(recipe.calibration, mirror=True))
    for flip, augmentation, mirror, warned in (
        (False, "light", True, True),
        (True, "none", True, True),
        (True, "light", True, False),
        (False, "light", False, False),
    ):
        data = replace(recipe.data, flip=flip, augmentation=augmentation)
        given = replace(mirrored if mirror else recipe, data=data)
        _, text = printed(announce, "tiny", given, given, None, tmp_path)
        assert ("which a training without flips never shows" in " ".join(text.split())) == warned


def test_it_prints_the_plan_in_80_columns_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny_recipe()
    elastic = replace(recipe, cluster=replace(recipe.cluster, num_workers=2, min_workers=1))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    code, out = planned(elastic, None, tmp_path, width=80)
    assert code == 0
    table = out.splitlines()[1:]  # after the line on the storage
    assert max(map(len, table)) <= 80
    text = " ".join(" ".join(table).split())
    assert "…" not in text
    assert "class split index 0" in text
    assert "a fine-tune 2 workers of 1 CPU" in text
    assert "pretrain 1 to train" in text
    assert re.search(r"fine-tune \d+ to train", text)
    assert re.search(r"time about \d+:\d\d \(pretraining \d+:\d\d, fine-tune \d+:\d\d, evaluate \d+:\d\d\)", text)
    assert "a pretraining 1 worker of 2 CPUs, 1 at a time" in text, "it has idle cores too"
    assert list(tmp_path.iterdir()) == []


def test_a_tracking_server_is_asked_as_by_a_run_and_a_database_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server_answering((200, "{}")) as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
        assert planned(tiny_recipe(), None, tmp_path)[0] == 0
    with pytest.raises(TrackingError, match=r"does not answer \(Connection refused\)"):
        planned(tiny_recipe(), None, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_options_are_checked_once_and_before_a_node_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    for place, name in ((checks, "check_recipe"), (training, "prepare_inputs"), (Cluster, "check")):
        asked = getattr(place, name)
        monkeypatch.setattr(place, name, lambda *given, name=name, asked=asked: called.append(name) or asked(*given))
    assert planned(tiny_recipe(), None, tmp_path)[0] == 0
    assert called == ["check_recipe", "prepare_inputs", "check"]


def test_what_a_space_says_of_its_points_goes_with_them() -> None:
    assert checks.check_run(replace(tiny_recipe(), space="ablation"), None).space_infos == {
        "ablation": space_info("ablation")
    }


def test_a_storage_that_was_there_stays(tmp_path: Path) -> None:
    kept = Store(tmp_path / "storage").root / "mine"
    kept.write_text("mine")
    planned(tiny_recipe(), None, tmp_path)
    assert kept.read_text() == "mine"
    assert {path.name for path in kept.parent.iterdir()} == {"mine", ".lock"}


def test_weights_of_your_own_are_not_pretrained(tmp_path: Path, closed_set_weights: Path) -> None:
    code, text = planned(tiny_recipe(), None, tmp_path, closed_set_weights)
    assert code == 0
    assert re.search(r"pretrain +0 to train", text)
    assert "a pretraining" not in text


@pytest.mark.parametrize("name", ["folder", "folder-pretrained"])
def test_one_class_is_refused_as_by_a_run_before_weights_are_fetched(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrained, "fetch", lambda network: pytest.fail("weights are fetched"))
    (tmp_path / "images/alone").mkdir(parents=True)
    Image.fromarray(digits.read("train", 8).images[0]).save(tmp_path / "images/alone/0.png")
    with pytest.raises(DataError, match="folder has 1 class; need 2 or more"):
        planned(RECIPES[name](), tmp_path / "images", tmp_path)


def test_a_class_called_unknown_is_refused_before_anything_is_decoded(tmp_path: Path) -> None:
    for name in ("cat", "dog", "Unknown"):
        (tmp_path / "images" / name).mkdir(parents=True)
        (tmp_path / "images" / name / "0.png").write_text("not an image")
    with pytest.raises(DataError, match=r"'Unknown' would mean two things.*evaluate`, beside folders of known"):
        planned(RECIPES["folder"](), tmp_path / "images", tmp_path)


def test_of_images_of_your_own_the_proxy_and_the_refit_are_planned(tmp_path: Path) -> None:
    write_digits(tmp_path / "images", {str(value): value for value in range(4)}, 40)
    own, tiny = RECIPES["folder"](), tiny_recipe()
    data = replace(own.data, image_size=8, padding=1, flip=False, val_fraction=0.3)
    recipe = replace(own, precision="fp32", data=data, pretrain=tiny.pretrain)
    code, text = planned(recipe, tmp_path / "images", tmp_path)
    assert code == 0
    assert text.index("Plan: proxy") < text.index("Plan: all classes")
    for kind in ("a pretraining", "a fine-tune"):
        of_proxy, of_all = re.findall(rf"{kind} +(\S.*\S)", text)
        assert of_proxy == of_all, "the same step is measured once"
    *parts, together = (
        60 * int(minutes) + int(seconds)
        for minutes, seconds in re.findall(r"(?:time +|Together )about (\d+):(\d\d)", text)
    )
    assert len(parts) == 2
    assert together == pytest.approx(sum(parts), abs=2), "but for rounding"
    assert not (tmp_path / "storage").exists()
