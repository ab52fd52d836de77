"""A simulated training against a real one."""

from contextlib import nullcontext
from pathlib import Path

from training_jobs import tiny_recipe

from benchmarks.workflow.simulated_training import simulated
from proser_core.config import to_json
from proser_core.jobs.preparing import save_task
from proser_core.jobs.spec import LOGITS, Job, read_epochs
from proser_core.jobs.worker import run_job
from proser_core.recognition.logit_tables import load_logits
from proser_core.store.store import load_if_complete


def test_a_simulated_training_leaves_what_a_real_one_does_without_taking_a_step(tmp_path: Path) -> None:
    recipe = tiny_recipe()
    save_task(recipe, None, tmp_path / "task")
    real, made = tmp_path / "real", tmp_path / "made"
    for folder, context in ((real, nullcontext), (made, simulated)):
        with context():
            run_job(Job("finetune", to_json(recipe), str(tmp_path / "task"), str(folder)), lambda metrics: None)
        assert load_if_complete(folder) is not None
    assert {path.name for path in real.iterdir()} == {path.name for path in made.iterdir()}
    assert len(read_epochs(real)) == len(read_epochs(made)) == recipe.finetune.epochs
    tables = [load_logits(folder / LOGITS)["test"] for folder in (real, made)]
    assert tables[0].dummies.shape == tables[1].dummies.shape
