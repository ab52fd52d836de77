"""What a step of a training costs on this machine, as a plan has it."""

from dataclasses import replace

import pytest
import torch
from training_jobs import tiny_recipe

from proser_core.config import to_json
from proser_core.jobs.probe import measure_step
from proser_core.networks.nets import add_placeholders, make_closed_set_net


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("kind", ["pretrain", "finetune"])
def test_a_step_is_measured_on_the_cores_of_a_worker(kind: str) -> None:
    tiny = tiny_recipe()
    small = {each: replace(getattr(tiny, each), batch_size=8) for each in ("pretrain", "finetune")}
    recipe = replace(tiny, **small, cluster=replace(tiny.cluster, cpus_per_worker=1))
    cost = measure_step(kind, to_json(recipe))
    assert torch.get_num_threads() == 1
    net = make_closed_set_net(recipe.network, recipe.data.num_known, recipe.data.image_size, seed=0)
    net = add_placeholders(net, recipe.finetune.num_dummies, seed=0) if kind == "finetune" else net
    assert cost.weight_bytes == sum(each.numel() * each.element_size() for each in net.parameters())
    assert cost.step_seconds > 0
    assert cost.scored_per_second > 0
    assert (cost.device_bytes, cost.device_total) == (0, 0)
