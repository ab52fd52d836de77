"""How the trials of a sweep sort, filter and show in the MLflow UI, on a real SQLite tracking store."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from sweep_tables import SETTINGS, trial

from pipelines.tracking import views
from pipelines.tracking.runs import ParentRun
from pipelines.tracking.server import NOTE
from pipelines.tracking.trial_runs import that_matter
from pipelines.tracking.views import MAX_VIEWS, OWN, TAG, newest_view, save_sweep_view
from proser_core.config import FinetuneConfig
from proser_core.config.named_finetunes import PLACEHOLDER_FIELDS
from proser_core.store.store import Artefact

COUNTS = (11, 3, 1, 15)


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ParentRun]:
    """A sweep over C with one trial that failed, tracked twice as after a resume."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path_factory.mktemp('tracking') / 'mlflow.db'}")
        for _ in range(2):
            made = ParentRun.open("sweep", "its key", {})
            for count in COUNTS:
                made.track_trial(row(count), [{"epoch": 0.0, "loss/closed_set": 1.0}])
        yield made


def row(count: int) -> dict[str, Any]:
    made = trial({"num_dummies": count}, 0, 0.5 + count / 100, "num_dummies")
    if count == 15:
        return {**made, "status": "failed", "reason": "not finite", "metrics": {}}
    return {**made, "spaces": ["num_dummies", "ablation"]} if count == 1 else made


def found(parent: ParentRun, text: str = "", order: str = "") -> list[Run]:
    children = f"tags.mlflow.parentRunId = '{parent.run_id}'"
    whole = f"{children} AND {text}" if text else children
    return list(parent.client.search_runs([parent.experiment_id], whole, order_by=[order] if order else []))


def counts(runs: list[Run]) -> list[int]:
    return [int(run.data.params["C"]) for run in runs]


def state_of(parent: ParentRun, key: str) -> dict[str, Any]:
    return json.loads(json.loads(parent.client.get_experiment(parent.experiment_id).tags[TAG + key])["state"])


def test_numeric_fields_sort_and_compare_as_numbers_of_failed_trials_too(parent: ParentRun) -> None:
    assert counts(found(parent, order="metrics.`point/C` ASC")) == sorted(COUNTS)
    assert sorted(counts(found(parent, "metrics.`point/C` > 5"))) == [11, 15]


def test_trials_are_found_by_space_and_by_what_became_of_them(parent: ParentRun) -> None:
    assert counts(found(parent, "tags.`proser.spaces` LIKE '%ablation%'")) == [1]
    assert len(found(parent, "tags.`proser.spaces` LIKE '%num_dummies%'")) == len(COUNTS)
    assert counts(found(parent, "attributes.status = 'FAILED'")) == [15]


def test_a_control_has_no_place_among_the_points(parent: ParentRun) -> None:
    assert views.point_metrics(row(3)["params"])["point/C"] == 3
    assert views.point_metrics({**row(3)["params"], "objective": "cross_entropy"}) == {}


def test_a_trial_shows_the_parameters_that_its_training_reads_each_under_one_name(parent: ParentRun) -> None:
    params = row(3)["params"]
    (shown,) = (run.data.params for run in found(parent, "params.C = '3'"))
    assert params.keys() - shown.keys() == {"num_dummies", "restarts"}
    control = that_matter({**params, "objective": "cross_entropy", "schedule": "cosine_restarts"})
    assert params.keys() - control.keys() == {*PLACEHOLDER_FIELDS, "C"}


def test_the_order_of_the_view_is_that_of_the_development_metric(parent: ParentRun) -> None:
    state = views.view_state(parent.run_id, ["C"], SETTINGS)
    assert state["searchFilter"] == f"tags.mlflow.parentRunId = '{parent.run_id}'"
    runs = found(parent, order=f"{state['orderByKey']} {'ASC' if state['orderByAsc'] else 'DESC'}")
    assert counts(runs)[:3] == [11, 3, 1]


def test_every_column_of_the_view_is_logged_with_the_trials(parent: ParentRun) -> None:
    state = views.view_state(parent.run_id, ["C", "mixup"], SETTINGS)
    (best, *_) = found(parent, "params.C = '11'")
    logged = {f"metrics.`{name}`" for name in best.data.metrics} | {f"params.`{name}`" for name in best.data.params}
    assert set(state["selectedColumns"]) - logged == {"attributes.`Models`", "tags.`proser.selected`"}
    assert "metrics.`calibration/bias`" in logged
    (across, against) = state["compareRunCharts"]
    assert set(across["selectedParams"]) <= set(best.data.params)
    assert {*across["selectedMetrics"], against["xaxis"]["key"], against["yaxis"]["key"]} <= set(best.data.metrics)


def test_tracking_a_trial_twice_logs_each_metric_once(parent: ParentRun) -> None:
    runs = found(parent)
    assert len(runs) == len(COUNTS)
    for run in runs:
        assert run.data.metrics
        for name in run.data.metrics:
            assert len(parent.client.get_metric_history(run.info.run_id, name)) == 1, name


def test_saving_the_view_again_replaces_it_and_only_varied_fields_are_columns(parent: ParentRun) -> None:
    tuned = [
        replace(FinetuneConfig(), num_dummies=count, mixup=mixup) for count, mixup in ((1, "manifold"), (3, "vanilla"))
    ]
    control = replace(FinetuneConfig(), objective="cross_entropy", lr=9.0)
    for _ in range(2):
        parent.save_view("digits: num_dummies", [control, *tuned], SETTINGS)
    key = OWN + parent.run_id
    tags = parent.client.get_experiment(parent.experiment_id).tags
    assert [tag for tag in tags if tag.startswith(TAG)] == [TAG + key]
    view = json.loads(tags[TAG + key])
    started = datetime.fromtimestamp(parent.client.get_run(parent.run_id).info.start_time / 1000)
    assert view["name"] == f"digits: num_dummies, {started:%Y-%m-%d %H:%M}"  # two runs may have one name
    assert view["createdAt"] <= view["updatedAt"]
    columns = state_of(parent, key)["selectedColumns"]
    assert columns[:2] == ["metrics.`point/C`", "params.`mixup`"]
    assert columns[4] == "metrics.`dev/macro_f1`"
    assert not any("lr" in column or "split_index" in column for column in columns)


def test_a_view_of_several_class_splits_has_their_column(parent: ParentRun) -> None:
    parent.save_view("digits", [FinetuneConfig()], SETTINGS, num_splits=2)
    assert state_of(parent, OWN + parent.run_id)["selectedColumns"][0] == "params.`split_index`"


def test_the_link_opens_that_view(parent: ParentRun) -> None:
    link = parent.link()
    assert link.startswith(f"http://127.0.0.1:5000/#/experiments/{parent.experiment_id}/runs?")
    assert parse_qs(link.split("?")[1]) == {
        "viewStateShareKey": [OWN + parent.run_id],
        "workflowType": ["machine_learning"],
    }


def test_the_newest_view_is_the_one_that_was_saved_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    one, other = (ParentRun.open(key, key, {}) for key in ("one", "other"))
    client, experiment = one.client, one.experiment_id
    assert newest_view(client, experiment) == ""
    for run in (one, other, one):
        run.save_view("digits", [FinetuneConfig()], SETTINGS)
        time.sleep(0.002)  # views have milliseconds
        assert newest_view(client, experiment) == run.run_id


def test_trials_that_do_not_vary_and_were_not_tested_have_a_view_without_charts(parent: ParentRun) -> None:
    parent.save_view("folder", [FinetuneConfig()], ())
    state = state_of(parent, OWN + parent.run_id)
    assert state["compareRunCharts"] == []
    assert not any("unknown" in column for column in state["selectedColumns"])


@pytest.mark.parametrize("sections", [1, 40])
def test_a_long_description_ends_with_a_whole_section(parent: ParentRun, tmp_path: Path, sections: int) -> None:
    written = "# Sweep\n" + "".join(f"\n## {number}\n\n{'word ' * 100}end\n" for number in range(sections))
    (tmp_path / "results.md").write_text(written)
    parent.report(Artefact(tmp_path, f"digest of {sections}"))
    note = parent.client.get_run(parent.run_id).data.tags[NOTE]
    assert len(note) <= 8000
    if sections == 1:
        assert note == written
    else:
        assert note.endswith("end\n\nThe other sections are in results.md, among the artifacts.\n")


def test_views_of_old_sweeps_make_room_and_those_of_users_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    other = ParentRun.open("other", "another key", {})
    other.client.set_experiment_tag(other.experiment_id, f"{TAG}a-users-own", "anything")
    other.client.set_experiment_tag(other.experiment_id, f"{TAG}{OWN}of-a-later-ui", "in another format")
    for number in range(MAX_VIEWS + 3):
        monkeypatch.setattr(views.time, "time", lambda number=number: float(number))
        save_sweep_view(other.client, other.experiment_id, f"run{number}", "sweep", ["C"], SETTINGS)
    tags = other.client.get_experiment(other.experiment_id).tags
    kept = {tag.removeprefix(TAG) for tag in tags if tag.startswith(TAG)}
    assert kept == {"a-users-own", *(f"{OWN}run{number}" for number in range(3, MAX_VIEWS + 3))}


def test_an_old_view_that_another_sweep_has_just_deleted_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    run = ParentRun.open("other", "another key", {})
    for number in range(MAX_VIEWS):
        run.client.set_experiment_tag(run.experiment_id, f"{TAG}{OWN}run{number}", json.dumps({"createdAt": number}))

    class Overtaken(MlflowClient):
        def delete_experiment_tag(self, *arguments: str) -> None:
            run.client.delete_experiment_tag(*arguments)
            super().delete_experiment_tag(*arguments)

    save_sweep_view(Overtaken(), run.experiment_id, "new", "sweep", ["C"], SETTINGS)
    tags = run.client.get_experiment(run.experiment_id).tags
    assert {f"{TAG}{OWN}run0", f"{TAG}{OWN}new"} & tags.keys() == {f"{TAG}{OWN}new"}
    assert capsys.readouterr().err == ""


def test_a_view_that_the_server_refuses_costs_nothing_but_the_view(
    parent: ParentRun, capsys: pytest.CaptureFixture[str]
) -> None:
    save_sweep_view(parent.client, parent.experiment_id, "refused", "too long " * 5000, ["C"], SETTINGS)
    assert f"{TAG}{OWN}refused" not in parent.client.get_experiment(parent.experiment_id).tags
    assert "the view of this sweep is not saved" in capsys.readouterr().err
