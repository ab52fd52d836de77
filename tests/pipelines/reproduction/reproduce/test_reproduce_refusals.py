"""What `proser reproduce` refuses before any work, and the methods that it takes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from own_networks import METHOD, NEAREST
from pipeline_runs import RunFolder, printed, tiny_recipe
from reproductions import request

from pipelines.reproduction.reproducing import reproduce
from pipelines.reproduction.studies import method_names
from proser_core.config import FinetuneConfig
from proser_core.errors import ConfigError
from proser_core.generative.networks import OWN_NETWORKS

pytestmark = pytest.mark.usefixtures("trains_here", "empty_figures")


@pytest.mark.usefixtures("own_network")
def test_methods_with_networks_of_their_own_are_left_out_unless_they_are_asked_for(folder: RunFolder) -> None:
    assert METHOD.name not in method_names(request(folder, "few", methods=()))
    assert METHOD.name in method_names(request(folder, "few", methods=(), own_networks="full"))
    beside = method_names(request(folder, "few", methods=("CROSR",)))
    assert beside == ["DHRNet + Softmax", "CROSR", "DHRNet, MaxLogit"]


@pytest.mark.usefixtures("own_network")
def test_a_network_that_a_task_does_not_suit_is_refused_by_name_before_any_work(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    picky = replace(NEAREST, refusal=lambda shape: f"{shape.image_size} pixels are too few")
    monkeypatch.setitem(OWN_NETWORKS, NEAREST.name, picky)
    with pytest.raises(ConfigError, match=r"Nearest \(mean\), plain cannot be trained on digits: 8 pixels are too few"):
        printed(reproduce, request(folder, "few", methods=(METHOD.name,)))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"recipe": replace(tiny_recipe(), finetune=FinetuneConfig(beta=3.0))}, "--finetune.beta got 3.0, and every"),
        ({"with_task": True}, "and needs --jobs FOLDER; give both"),
        ({"jobs": Path("there"), "import_from": (Path("OUT"),)}, "--jobs was given with --import-from"),
        ({"jobs": Path("there"), "dry_run": True}, "--jobs was given with --dry-run"),
        ({"import_from": (Path("OUT"),), "storage": "s3://b/x"}, "--storage got s3://b/x; "),
    ],
)
def test_what_cannot_be_reproduced_is_refused_before_any_work(
    folder: RunFolder, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        printed(reproduce, request(folder, "few", **options))
