"""Sets of unknown images beside a user's own classes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_folders import save
from small_tasks import random_images

from proser_core.config import DataConfig
from proser_core.data.preparation import split_of
from proser_core.errors import ConfigError

OWN = DataConfig(name="folder", image_size=8, padding=1, num_known=2, unknown_settings=(), development="none")


def write_classes(root: Path) -> None:
    for name in ("cat", "dog"):
        save(random_images(1)[0], root / name / "1.png")


@pytest.mark.parametrize(
    ("changes", "setting", "folder"),
    [
        ({"outliers": ("lsun-resize",)}, "outliers has lsun-resize", "LSUN_resize"),
        ({"outliers": ("noise", "imagenet-crop")}, "outliers has imagenet-crop", "Imagenet"),
        ({"outliers": ("omniglot",)}, "outliers has omniglot", "omniglot-py/images_evaluation"),
        ({"development": "tiny-imagenet"}, "development is tiny-imagenet", "tiny-imagenet-200/train"),
        ({"development": "cifar10"}, "development is cifar10", "cifar10"),
        ({"unknown": "mnist", "unknown_settings": (1,)}, "unknown is mnist", "MNIST/raw"),
    ],
)
@pytest.mark.parametrize("is_there", [True, False])  # where not, it would be put there
def test_a_set_that_would_be_one_of_the_classes_is_refused(
    tmp_path: Path, changes: dict[str, Any], setting: str, folder: str, is_there: bool
) -> None:
    write_classes(tmp_path)
    if is_there:
        save(random_images(1)[0], tmp_path / folder / "1.png")
    with pytest.raises(
        ConfigError, match=rf"data\.{setting}, whose files would be a class among yours in .*to train/CLASS"
    ):
        split_of(replace(OWN, **changes), tmp_path)


def test_a_set_without_a_folder_of_its_own_goes_with_the_classes(tmp_path: Path) -> None:
    write_classes(tmp_path)
    split_of(replace(OWN, outliers=("noise",), development="svhn", download=True), tmp_path)
    for name in ("train_32x32.mat", "test_32x32.mat"):  # of SVHN
        (tmp_path / name).touch()
    for development in ("none", "digits", "svhn"):
        config = replace(OWN, outliers=("noise",), development=development)
        assert split_of(config, tmp_path).settings == ("noise",)


def test_parquet_files_beside_train_are_no_class(tmp_path: Path) -> None:
    write_classes(tmp_path / "train")
    (tmp_path / "omniglot").mkdir()
    (tmp_path / "omniglot/test-00000.parquet").touch()
    split = split_of(replace(OWN, outliers=("omniglot",)), tmp_path)
    assert (split.num_known, split.unknown) == (2, (2,))
