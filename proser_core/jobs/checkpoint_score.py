"""The checkpoint of a training that is not finished: how far it has come, and its development score, by which a search
compares trials. Test images play no part."""

import json
from pathlib import Path

import numpy as np
import torch

from proser_core.config import Recipe, from_json
from proser_core.data.tasks import OpenSetTask, OpenStream
from proser_core.jobs.spec import DEVELOPMENT_SCORES, SELECTION_METRIC, STATE, Job, read_all_scores, score_key
from proser_core.learning.objectives import ProserObjective
from proser_core.learning.training import training_device
from proser_core.networks.nets import add_placeholders, make_closed_set_net
from proser_core.recognition.calibration import calibrate
from proser_core.recognition.evaluation import development_metrics
from proser_core.recognition.logits import compute_logits
from proser_core.recognition.scores import own_score
from proser_core.recognition.scoring import score
from proser_core.store.files import write_atomically


def epochs_in_checkpoint(folder: Path) -> int:
    """How many epochs a training goes on after; its EPOCHS may be one ahead, or of a checkpoint that is gone."""
    path = folder / STATE
    return torch.load(path, map_location="meta", weights_only=True)["epoch"] + 1 if path.is_file() else 0


def score_checkpoint(job: Job, open_stream: OpenStream = lambda stored: stored) -> None:
    """Write the macro-F1 of a fine-tune's last checkpoint, on validation images and development unknowns, to its
    DEVELOPMENT_SCORES; the network is the one that it would be if it ended there. `open_stream` is as of `run_job`."""
    torch.set_num_threads(job.threads)
    folder, recipe = Path(job.folder), from_json(Recipe, job.recipe)
    task, device = OpenSetTask.load(Path(job.task), open_stream), training_device(recipe)
    closed_set = make_closed_set_net(recipe.network, task.num_known, recipe.data.image_size, recipe.seed)
    objective = ProserObjective(
        add_placeholders(closed_set, recipe.finetune.num_dummies, recipe.seed), recipe.finetune, recipe.seed
    )
    state = torch.load(folder / STATE, map_location=device, weights_only=True)
    objective.load_state_dict({**state["objective"], **state["average"]})
    epochs, key = state["epoch"] + 1.0, score_key(recipe.calibration)
    row = {"epochs": epochs, SELECTION_METRIC: _macro_f1(objective, recipe, task, device), "scored_by": key}
    kept = [each for each in read_all_scores(folder) if each["epochs"] < epochs or each.get("scored_by") != key]
    lines = [json.dumps(each) for each in [*kept, row]]
    write_atomically(folder / DEVELOPMENT_SCORES, "\n".join(lines).encode())


def _macro_f1(objective: ProserObjective, recipe: Recipe, task: OpenSetTask, device: torch.device) -> float:
    parts, own = (task.val, task.development), own_score(recipe)
    tables = [compute_logits(objective.net, part.images, (task.mean, task.std), device) for part in parts]
    calibration = calibrate(own(tables[0]), recipe.calibration.target_rate)
    val, development = (score(table, own, calibration) for table in tables)
    macro_f1 = development_metrics(val, np.asarray(task.val.targets), development).macro_f1
    assert macro_f1 is not None, "a search needs development unknowns"
    return macro_f1
