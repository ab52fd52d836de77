"""Every field of a recipe stands in the key of what it decides, or here with the reason why it does not."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from frozen_features import as_artefact
from PIL import Image
from small_tasks import digits_config, small_task

from proser_core.config import ClusterConfig, FinetuneConfig, NetworkConfig, PretrainConfig, Recipe, decisive_fields
from proser_core.digests import digest_of
from proser_core.generative.osrci import OSRCI
from proser_core.jobs import spec
from proser_core.jobs.network_tables import table_inputs
from proser_core.jobs.own_networks.plans import plan_network
from proser_core.jobs.preparing import prepare_inputs
from proser_core.store.store import Artefact, Store

RECIPE = Recipe(
    data=digits_config(flip=False),
    network=NetworkConfig(features="frozen"),
    pretrain=PretrainConfig(batch_size=24),  # any number of workers from 2 to 4 can share it
    finetune=FinetuneConfig(batch_size=24),
    cluster=ClusterConfig(num_workers=3, min_workers=2, pretrain_workers=2),
)
OTHER: dict[str, Any] = {
    "data.name": "mnist",
    "data.unknown": "mnist",
    "data.unknown_settings": (1, 2),
    "data.outliers": ("noise",),
    "data.development": "held-out-1",
    "data.group_by": "1",
    "data.normalisation": (0.5,) * 6,
    "network.backbone": "classifier32_flat",
    "calibration.development": ("noise",),
    "finetune.batch_size": 48,
    "pretrain.batch_size": 48,
    "cluster.min_workers": 1,
    "cluster.gpus_per_worker": 1.0,
}
"""Another value of a field, where it is none that `other` finds."""
WITH: dict[str, dict[str, Any]] = {
    "data.outliers": {"data.unknown_settings": ()},
    "data.group_by": {"data.name": "folder"},
    "data.group_near_duplicates": {"data.name": "folder"},
    "data.streaming": {"data.name": "folder"},
    "calibration.development": {"calibration.score": "auto"},
    "finetune.optimizer": {"finetune.start": "scratch"},
}
"""What the recipe has, with either value of a field."""

EVERYWHERE = {
    "name": "a name changes no result",
    "model_name": "a name changes no result",
    "network.weights": "they are a weights_file by then",
    "data.download": "how images come here, not which",
    "cluster.max_concurrent": "says where it runs",
    "cluster.address": "says where it runs",
}
ONE = EVERYWHERE | {
    "space": "says which trainings there are, not what one of them is",
    "stop_early": "says which trainings there are, not what one of them is",
    "precision": "is decided with the hardware, and then in the key of a training",
}
TASK = {"data.": "the digest of the task is in the key"}
EVALUATION = {"calibration.": "a finished training is evaluated anew, not trained anew"}
LEFT_OUT: dict[str, dict[str, str]] = {
    "run": EVERYWHERE,
    "task": ONE
    | EVALUATION
    | dict.fromkeys(("network.", "pretrain.", "finetune.", "cluster."), "decides a training, not its images")
    | dict.fromkeys(("data.flip", "data.padding", "data.augmentation", "data.sampling"), "only trainings augment"),
    "pretrain": ONE
    | TASK
    | EVALUATION
    | dict.fromkeys(("finetune.", "cluster.num_workers", "cluster.min_workers"), "all fine-tunes share a pretraining")
    | {"network.split": "a pretraining mixes nothing"},
    "finetune": ONE
    | TASK
    | EVALUATION
    | dict.fromkeys(("pretrain.", "cluster.pretrain_workers"), "the weights that it begins with are in the key"),
    "embeddings": ONE
    | TASK
    | EVALUATION
    | dict.fromkeys(("seed", "pretrain.", "finetune.", "cluster."), "a frozen backbone sees no training")
    | dict.fromkeys(("network.dropout", "network.split", "network.features"), "no embedding depends on it"),
    "tables": ONE
    | TASK
    | dict.fromkeys(("pretrain.", "finetune.", "cluster."), "the weights of the training are in the key")
    | dict.fromkeys(
        ("calibration.target_rate", "calibration.dummy_weight", "calibration.score", "calibration.network"),
        "a table is scored anew, not computed anew",
    )
    | {"calibration.development": "the digest of these images is in the key"},
}
"""By key: fields, or blocks, and why they are not in it."""
IN_ITS_KEY = {
    "pretrain": ("data.flip", "data.padding", "data.augmentation", "data.sampling"),
    "finetune": ("data.flip", "data.padding", "data.augmentation", "data.sampling"),
    "embeddings": ("data.normalisation",),
    "tables": ("finetune.num_dummies", "finetune.objective"),
}
"""Fields that are in a key although the rest of their block is not."""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Callable[[Recipe], Any]]:
    folder = tmp_path_factory.mktemp("keys")
    mnist, classes = folder / "images" / "mnist", [folder / "images" / "train" / name for name in ("cat", "dog")]
    for made in (mnist, *classes):
        made.mkdir(parents=True)
    for name in ("train-0.parquet", "test-0.parquet"):
        (mnist / name).touch()
    for path in (made / f"{number}.png" for made in classes for number in range(3)):
        Image.new("RGB", (8, 8)).save(path)
    trained, task = folder / "trained", as_artefact(small_task(), folder / "task")
    trained.mkdir()
    (trained / spec.WEIGHTS).write_bytes(b"weights")
    return {
        "run": decisive_fields,
        "task": lambda recipe: prepare_inputs(recipe, folder / "images"),
        "pretrain": lambda recipe: spec.job_inputs("pretrain", recipe, task, "", False, "code"),
        "finetune": lambda recipe: spec.job_inputs("finetune", recipe, task, "weights", False, "code"),
        "embeddings": lambda recipe: spec.embedding_inputs(recipe, task),
        "tables": lambda recipe: table_inputs(recipe, task, trained, recipe.finetune, None),
    }


def names_and_types(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(type(config))
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            yield from names_and_types(value, f"{field.name}.")
        else:
            yield prefix + field.name, hints[field.name]


def changed(recipe: Recipe, values: dict[str, Any]) -> Recipe:
    """With these fields, those of one block at once."""
    blocks: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        block, _, field = name.rpartition(".")
        blocks.setdefault(block, {})[field] = value
    own = blocks.pop("", {})
    return replace(recipe, **own, **{block: replace(getattr(recipe, block), **each) for block, each in blocks.items()})


def other(name: str, kind: Any, value: Any) -> Any:
    if name in OTHER:
        return OTHER[name]
    if get_origin(kind) is Literal:
        return next(each for each in reversed(get_args(kind)) if each != value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value / 2 if value else 0.5
    return value + (1 if isinstance(value, int) else "a")


def is_left_out(key: str, name: str) -> bool:
    listed = LEFT_OUT[key]
    return name in listed or (name.rpartition(".")[0] + "." in listed and name not in IN_ITS_KEY.get(key, ()))


@pytest.mark.parametrize("key", LEFT_OUT)
def test_a_field_is_in_the_key_of_what_it_decides_or_on_the_list_of_those_that_are_not(
    key: str, keys: dict[str, Callable[[Recipe], Any]], tmp_path: Path
) -> None:
    weights = tmp_path / "weights.pth"
    weights.write_bytes(b"other")
    named = dict(names_and_types(RECIPE))
    found, inputs = set(), keys[key]
    for name, kind in named.items():
        recipe = changed(RECIPE, WITH.get(name, {}))
        block, _, field = name.rpartition(".")
        value = getattr(getattr(recipe, block) if block else recipe, field)
        new = str(weights) if name == "network.weights_file" else other(name, kind, value)
        if digest_of(inputs(changed(recipe, {**WITH.get(name, {}), name: new}))) == digest_of(inputs(recipe)):
            found.add(name)
    assert found == {name for name in named if is_left_out(key, name)}


def test_the_images_and_the_weights_that_it_begins_with_are_in_the_key_of_a_training(tmp_path: Path) -> None:
    one, another = (as_artefact(small_task(), tmp_path / name) for name in ("one", "another"))
    given = "finetune", RECIPE
    made: list[tuple[Artefact, str, bool, str]] = [
        (one, "weights", False, "code"),
        (another, "weights", False, "code"),
        (one, "others", False, "code"),
        (one, "weights", True, "code"),
        (one, "weights", False, "newer code"),
    ]
    assert len({digest_of(spec.job_inputs(*given, *each)) for each in made}) == len(made)


def test_whatever_decides_a_network_of_a_methods_own_is_in_the_key_of_its_training(tmp_path: Path) -> None:
    task, another = (as_artefact(small_task(), tmp_path / name) for name in ("task", "another"))
    recipe, part = replace(RECIPE, precision="fp32"), OSRCI.needs[0]
    changes: list[dict[str, Any]] = [
        {},
        {"network": replace(OSRCI, name="other")},
        {"schedule": "full"},
        {"task": another},
        {"codes": {part: ("newer code",)}},
        {"codes": {OSRCI.name: ("newer code",)}},
        *(
            {"recipe": changed(recipe, {name: value})}
            for name, value in [
                ("data.padding", recipe.data.padding + 1),
                ("seed", recipe.seed + 1),
                ("precision", "bf16"),
                ("cluster.gpus_per_worker", 1.0),
                ("cluster.cpus_per_worker", recipe.cluster.cpus_per_worker + 1),
            ]
        ),
    ]
    given = {"network": OSRCI, "schedule": "quick", "recipe": recipe, "task": task, "store": Store(tmp_path)}
    assert len({plan_network(**{**given, **each}).folder for each in changes}) == len(changes)


def test_the_weights_and_all_images_are_in_the_key_of_a_networks_tables(tmp_path: Path) -> None:
    one, another = (as_artefact(small_task(), tmp_path / name) for name in ("one", "another"))
    for folder in (first := tmp_path / "first", second := tmp_path / "second"):
        folder.mkdir()
        (folder / spec.WEIGHTS).write_text(folder.name)
    made: list[tuple[Artefact, Path, FinetuneConfig | None, Artefact | None]] = [
        (one, first, RECIPE.finetune, None),
        (another, first, RECIPE.finetune, None),
        (one, second, RECIPE.finetune, None),
        (one, first, None, None),
        (one, first, RECIPE.finetune, one),
        (one, first, RECIPE.finetune, another),
    ]
    assert len({digest_of(table_inputs(RECIPE, *each)) for each in made}) == len(made)
