"""The worked examples of CONTRIBUTING.md run as they are written."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipelines.recipes import RECIPES, digits
from pipelines.workflow.training import points_of
from proser_core.config import DataConfig, NetworkConfig, Recipe
from proser_core.data.catalogue import Source
from proser_core.data.readers.parquet import ParquetLayout
from proser_core.networks import backbone, nets
from proser_core.networks.classifier32 import ConvBlock
from proser_core.recognition.logit_tables import LogitTable

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def example(containing: str, **names: Any) -> dict[str, Any]:
    """The names that the one example with this text defines."""
    (code,) = [block for block in BLOCKS if containing in block]
    scope = dict(names)
    exec(code, scope)
    return scope


def test_the_example_of_a_search_space_has_four_points_of_recipes(tmp_path: Path) -> None:
    (code,) = [block for block in BLOCKS if "def param_space" in block]
    (tmp_path / "split_batches.py").write_text(code)
    points = points_of(digits(), str(tmp_path / "split_batches.py"))
    assert {(point.batch_use, point.lr) for point in points} == {
        (use, lr) for use in ("half", "all") for lr in (0.001, 0.01)
    }


def test_the_example_of_a_data_set_is_a_source_and_its_recipe_is_valid() -> None:
    made = example('SOURCES["fashion-mnist"]', Source=Source, ParquetLayout=ParquetLayout, SOURCES={})["SOURCES"][
        "fashion-mnist"
    ]
    scope = example("def fashion_mnist", Recipe=Recipe, DataConfig=DataConfig, RECIPES=dict(RECIPES))
    data = scope["RECIPES"]["fashion-mnist"]().data
    assert data.name == made.name == "fashion-mnist"
    assert data.num_known + data.num_development + max(data.unknown_settings) == made.num_classes


def test_the_example_of_a_backbone_makes_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nets, "BACKBONES", dict(nets.BACKBONES))
    names = {name: vars(backbone)[name] for name in ("Backbone", "average_pool", "refuse_fields")}
    example("def tiny", BACKBONES=nets.BACKBONES, NetworkConfig=NetworkConfig, ConvBlock=ConvBlock, **names)
    images = torch.randn(2, 3, 16, 16)
    for split in ("early", "middle", "late"):
        net = nets.make_closed_set_net(NetworkConfig(backbone="tiny", split=split), 3, 16, seed=0).eval()
        assert net(images).shape == (2, 3)
        assert net.backbone(images).shape == (2, net.backbone.embedding_size)
        assert torch.equal(net.backbone.post(net.backbone.pre(images)), net.backbone(images))


def test_the_example_of_a_method_is_a_score_like_any_other() -> None:
    margin = example("class Margin")["Margin"]()
    logits = LogitTable(np.array([[0.0, 0.0, -1.0], [9.0, 0.0, 2.0]], np.float32), np.zeros((2, 0), np.float32))
    np.testing.assert_allclose(margin(logits), [0, -7], rtol=1e-6)
    known, dummies = torch.from_numpy(logits.known), torch.from_numpy(logits.dummies)
    np.testing.assert_allclose(margin.in_torch(known, dummies), margin(logits), rtol=1e-6)
