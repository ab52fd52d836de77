"""The table of a sweep from folders alone: no cluster, no tracking."""

from dataclasses import replace
from pathlib import Path

from pipeline_runs import tiny_recipe
from sweep_tables import trial

from pipelines.workflow.stages.tabulate import tabulate
from pipelines.workflow.training import TrainedSplit
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs.spec import LOGITS
from proser_core.recognition.logits import TRAIN, load_logits, save_logits
from proser_core.store.store import Artefact


def test_the_controls_of_each_class_split_are_scored_from_its_own_networks(
    task: Artefact, closed_set_weights: Path, tmp_path: Path
) -> None:
    recipe, pretrained = tiny_recipe(), Artefact(closed_set_weights.parent, "weights")
    other = replace(recipe, data=replace(recipe.data, split_index=1))
    splits = [TrainedSplit(each, task, pretrained) for each in (recipe, other)]
    control = trial({"objective": "cross_entropy"}, 1, 0.5, "own") | {"objective": "cross_entropy", "key": "control"}
    rows = [trial({}, 0, 0.5, "own"), control]
    logits = load_logits(pretrained.path / LOGITS)
    (tmp_path / "control").mkdir()
    save_logits({part: logits[part] for part in logits if part != TRAIN}, tmp_path / "control" / LOGITS)

    table = tabulate(splits, rows, ["own"], tmp_path)
    plain = ["MSP", "MaxLogit", "OpenMax"]
    of_control = [f"CE control, {name}" for name in plain[:2]]
    names = [(0, name) for name in plain] + [(1, name) for name in (*plain, *of_control)]
    assert [(each["split_index"], each["name"]) for each in table.controls] == names
    metrics = {(each["split_index"], each["name"]): each["metrics"] for each in table.controls}
    assert metrics[1, "CE control, MSP"] == metrics[1, "MSP"] != metrics[1, "MaxLogit"]
    assert (table.recipe, table.rows, table.own) == (recipe.name, rows, recipe.finetune)
    assert table.splits == dict.fromkeys((0, 1), OpenSetTask.load(task.path).split)
