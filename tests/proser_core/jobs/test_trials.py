"""Trials of a job: their keys and their names."""

from pathlib import Path

from job_runs import RECIPE, write_job

from proser_core.config import Recipe, from_json
from proser_core.jobs.job_file import read_job_file
from proser_core.jobs.trials import plan_trials
from proser_core.store.store import Artefact, Store


def test_a_training_from_scratch_has_no_pretraining_in_its_key(tmp_path: Path) -> None:
    recipe = from_json(Recipe, RECIPE)
    parsed = read_job_file(write_job(tmp_path))
    task, one, other = (Artefact(tmp_path, digest) for digest in ("task", "one", "other"))

    def keys(pretrained: Artefact) -> list[str]:
        return [
            trial.key for trial in plan_trials(recipe, parsed.finetunes, task, pretrained, Store(tmp_path), code="code")
        ]

    assert [a == b for a, b in zip(keys(one), keys(other), strict=True)] == [False, False, True]


def test_points_that_are_almost_equal_have_names_of_their_own(tmp_path: Path) -> None:
    parsed = read_job_file(write_job(tmp_path, finetunes=[{"beta": 1}, {"beta": 1.0000001}, {"gamma": 1e38}]))
    artefact = Artefact(tmp_path, "digest")
    trials = plan_trials(parsed.recipe, parsed.finetunes, artefact, artefact, Store(tmp_path), code="code")
    names = ["beta=1 gamma=0.1", "beta=1.0000001 gamma=0.1", "beta=1 gamma=1e+38"]
    assert [trial.name for trial in trials] == names
