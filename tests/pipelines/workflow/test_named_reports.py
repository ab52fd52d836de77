"""A report of finished work bears the names that its command gives, which decide nothing else."""

from dataclasses import replace

import pytest
from pipeline_runs import RunFolder, printed, quick_recipe, write_space

from pipelines.output_files import RECIPE, RESULTS
from pipelines.workflow.requests import SweepRequest
from pipelines.workflow.sweeping import sweep
from proser_core.store.files import read_json

pytestmark = pytest.mark.usefixtures("trains_here", "empty_figures", "empty_programs")


def test_finished_work_under_another_name_is_reported_under_that_name(run_folder: RunFolder) -> None:
    for name in ("first", "second"):
        done = run_folder.run(replace(quick_recipe(), name=name, model_name=f"of_{name}", space=""))
        assert f"{name}: AUROC on test images" in done.text
    assert done.ran == {"report"}
    recipes = [read_json(path) for path in run_folder.storage.glob(f"report/*/{RECIPE}")]
    assert sorted((each["name"], each["model_name"]) for each in recipes) == [
        ("first", "of_first"),
        ("second", "of_second"),
    ]


def test_a_finished_sweep_under_another_name_is_reported_under_that_name(run_folder: RunFolder) -> None:
    write_space(run_folder.root, "betas", '{"beta": tune.grid_search([1.0, 2.0])}')
    space = str(run_folder.root / "betas.py")
    for name in ("first", "second"):
        request = SweepRequest(replace(quick_recipe(), name=name), (space,), storage=run_folder.storage)
        assert printed(sweep, request)[0] == 0
    titles = {path.read_text().splitlines()[0] for path in run_folder.storage.glob(f"sweep_report/*/{RESULTS}")}
    assert {title.partition(",")[0] for title in titles} == {"# Results of recipe first", "# Results of recipe second"}
