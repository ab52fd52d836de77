"""The MLflow UI in a browser: what a person sees first after a run, and where a run says how it was made."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import screenshots
from PIL import Image
from pipeline_runs import RunFolder
from tracking_servers import mlflow_server
from training_jobs import tiny_recipe

from pipelines.ports import free_ports
from pipelines.tracking.origins import origin_tags
from pipelines.tracking.runs import ParentRun

ASSISTANT = "Ask questions about your experiments"  # in the pane that MLflow opens beside the first page of a browser

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("trains_here", "empty_figures", "empty_programs")]


def test_the_first_page_shows_the_trials_with_their_metrics_and_the_registry_the_model(run_folder: RunFolder) -> None:
    if screenshots.find_browser() is None:
        pytest.skip("no Chromium on PATH")
    run = run_folder.run(replace(tiny_recipe(), model_name="another"))
    pages = screenshots.take(run_folder.root, str(run_folder.root / "digits"), *free_ports(1))
    trials, model = pages.values()
    children = run_folder.children(run.parent_id)
    assert len(children) > 1
    for trial in children:
        assert trial.info.run_name in trials
        assert str(trial.data.metrics["dev/macro_f1"])[:6] in trials
    assert "champion" in model
    assert ASSISTANT not in trials + model
    for path in pages:
        with Image.open(path) as image:
            assert image.size == (screenshots.WIDTH, screenshots.HEIGHT)
            assert image.convert("RGB").getcolors(50) is None, "a blank page"


def test_the_source_of_a_run_is_its_whole_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = screenshots.find_browser()
    if browser is None:
        pytest.skip("no Chromium on PATH")
    monkeypatch.setattr(sys, "argv", ["/a/place/bin/proser", "sweep", "digits", "--storage", "/some/where"])
    origin_tags.cache_clear()
    with mlflow_server(f"sqlite:///{tmp_path}/mlflow.db", tmp_path, *free_ports(1)) as address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        parent = ParentRun.open("sweep", "key", {})
        origin_tags.cache_clear()
        page = f"{address}/#/experiments/{parent.experiment_id}/runs/{parent.run_id}?workflowType=machine_learning"
        assert "proser sweep digits --storage /some/where" in screenshots.browse(browser, page, tmp_path / "run.png")
