"""A dry run whose steps are measured on workers of Ray, which it starts."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import ray
import torch
from pipeline_runs import printed
from training_jobs import tiny_recipe

from pipelines.commands.run import run_recipe
from pipelines.workflow.requests import RunRequest
from proser_core.titles import counted


@pytest.mark.slow
@pytest.mark.usefixtures("last_of_ray")
def test_it_prints_what_its_workers_measured_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    recipe = tiny_recipe()
    elastic = replace(recipe, cluster=replace(recipe.cluster, num_workers=2, min_workers=1))
    code, text = printed(run_recipe, RunRequest(elastic, None, tmp_path / "storage", dry_run=True))
    assert code == 0
    assert re.search(r"a fine-tune +2 workers of 1 CPU, \d+ at a time; \S+ m?s per step", text)
    cores = min(int(ray.cluster_resources()["CPU"]), torch.get_num_threads())
    assert re.search(rf"a pretraining +1 worker of {counted(cores, 'CPU')}, 1 at a time; \S+ m?s per step", text)
    assert re.search(r"time +about \d+:\d\d \(pretraining \d+:\d\d, fine-tune \d+:\d\d, evaluate \d+:\d\d\)", text)
    assert list(tmp_path.iterdir()) == []
