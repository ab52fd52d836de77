"""The table of a sweep or a run from folders and values alone: no cluster, no tracking."""

from dataclasses import replace
from pathlib import Path

from sweep_tables import SPLIT, metrics, trial
from training_jobs import tiny_recipe

from pipelines.reports.results_page import overview
from pipelines.reports.spaces import methods_of, spaces_of
from pipelines.workflow.stages.report import tabulate, tabulate_run
from pipelines.workflow.trained_split import TrainedSplit
from proser_core.config import FinetuneConfig, named_finetunes, to_json
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs.spec import LOGITS
from proser_core.recognition.logit_tables import TRAIN, load_logits, save_logits
from tune_spaces import SpaceInfo

INFOS = {"betas": SpaceInfo()}


def test_the_controls_of_each_class_split_are_scored_from_its_own_networks(split: TrainedSplit, tmp_path: Path) -> None:
    recipe = split.recipe
    other = replace(split, recipe=replace(recipe, data=replace(recipe.data, split_index=1)))
    params = to_json(named_finetunes.control(recipe.finetune))
    control = trial(params, 1, 0.5, "own") | {"objective": "cross_entropy", "key": "control"}
    rows = [trial({}, 0, 0.5, "own"), control]
    logits = load_logits(split.pretrained.path / LOGITS)
    (tmp_path / "control").mkdir()
    save_logits({part: logits[part] for part in logits if part != TRAIN}, tmp_path / "control" / LOGITS)

    table = tabulate([split, other], rows, {"own": SpaceInfo()}, tmp_path)
    plain = ["MSP", "MaxLogit", "OpenMax"]
    of_control = [f"CE control, {name}" for name in plain[:2]]
    names = [(0, name) for name in plain] + [(1, name) for name in (*plain, *of_control)]
    assert [(each["split_index"], each["name"]) for each in table.controls] == names
    found = {(each["split_index"], each["name"]): each["metrics"] for each in table.controls}
    assert found[1, "CE control, MSP"] == found[1, "MSP"] != found[1, "MaxLogit"]
    assert (table.recipe, table.rows, table.own) == (recipe.name, rows, recipe.finetune)
    assert table.splits == dict.fromkeys((0, 1), OpenSetTask.load(split.task.path).split)
    assert table.data_set == "digits"


def test_a_run_is_a_sweep_over_one_space_that_has_the_recipes_own_point_too() -> None:
    recipe = replace(tiny_recipe(), finetune=FinetuneConfig(), space="betas")
    rows = [trial({"beta": beta}, 0, 0.5 + beta / 10, "betas") for beta in (2.0, 1.0)]
    rows[1]["spaces"] = []
    mixed = replace(recipe, data=replace(recipe.data, unknown="mnist"))
    methods = {name: metrics(0.4) for name in ("PROSER", "PROSER, recipe's own point", "MSP")}
    made_of = {
        each.data.unknown: tabulate_run(each, SPLIT, rows, {"methods": methods}, INFOS) for each in (recipe, mixed)
    }
    assert {unknown: made.data_set for unknown, made in made_of.items()} == {"": "digits", "mnist": ""}
    for space in ("betas", ""):
        made = tabulate_run(replace(recipe, space=space), SPLIT, rows, {"methods": methods}, INFOS)
        assert [method.label for method in methods_of(made)] == ["PROSER", "PROSER, recipe's own point", "MSP"]
        (found,) = spaces_of(made)
        assert found.title == (space or "own point")
        assert [point.label for point in found.points] == ["beta 1", "beta 2"]


def test_the_score_of_the_points_has_one_row_where_another_decides() -> None:
    recipe = replace(tiny_recipe(), finetune=FinetuneConfig(), space="betas")
    recipe = replace(recipe, calibration=replace(recipe.calibration, score="fDBD", dummy_weight=0.0))
    rows = [trial({"beta": 1.0}, 0, 0.650, "betas")]
    methods = {name: metrics(0.6) for name in ("PROSER", "PROSER, gap", "PROSER, MaxLogit", "MaxLogit")}
    evaluation = {"methods": methods, "choices": {"PROSER": {"title": "fDBD"}}}
    made = tabulate_run(recipe, SPLIT, rows, evaluation, INFOS)
    assert [method.label for method in methods_of(made)] == ["PROSER", "PROSER, fDBD", "PROSER, gap", "MaxLogit"]


def test_where_images_are_mirrored_points_stand_beside_controls_that_are_not() -> None:
    recipe = replace(tiny_recipe(), finetune=FinetuneConfig(), space="betas")
    recipe = replace(recipe, calibration=replace(recipe.calibration, mirror=True))
    rows = [trial({"beta": 1.0}, 0, 0.650, "betas"), trial({"beta": 2.0}, 0, 0.645, "betas")]
    mirrored = {"PROSER": 0.66, "PROSER, p(unknown)": 0.6, "MaxLogit": 0.655}
    methods = {name: metrics(value) for name, value in mirrored.items()}
    plain = [{"split_index": 0, "name": name, "metrics": metrics(0.647)} for name in ("MSP", "MaxLogit")]
    named = {"PROSER": {"title": "fDBD"}}
    for choices, of_model in ({}, "PROSER, mirrored"), (named, "PROSER, fDBD, mirrored"):
        made = tabulate_run(recipe, SPLIT, rows, {"methods": methods, "choices": choices}, INFOS, plain)
        labels = ["PROSER", "MaxLogit", of_model, "PROSER, p(unknown), mirrored", "MaxLogit, mirrored"]
        assert {method.label: method.mean("dev/macro_f1") for method in methods_of(made)} == dict(
            zip(labels, (0.65, 0.647, 0.66, 0.6, 0.655), strict=True)
        )
        assert "Above MaxLogit on development macro-F1: 1 of 2 points; the selected one differs by +0.3" in overview(
            made
        )
