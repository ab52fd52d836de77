"""A reproduction on machines without Ray: its trainings as job files, and their outcome back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.carrying import adopt_finished, check_finished, one_process, save_job, unfinished
from pipelines.stages.prepare import task_at
from pipelines.stages.pretrain import plan_pretraining
from pipelines.stages.sweep import Base
from proser_core.config import FinetuneConfig, Recipe
from proser_core.errors import ConfigError
from proser_core.jobs import spec
from proser_core.jobs.runner import JOB_FILE
from proser_core.jobs.store import Store, find

OUT = "OUT"


def write_jobs(
    recipes: Sequence[Recipe],
    finetunes: Sequence[FinetuneConfig],
    data_dir: Path | None,
    task_storage: Path | None,
    folder: Path,
    console: Console,
) -> None:
    """A job file for each class split, `folder`/STUDY-split-N/JOB.json, and how to run them all.

    With `task_storage`, in which images are prepared or found, they are written beside each file. Raises ProserError
    for what cannot be trained there, or where a file cannot be written.
    """
    for recipe in recipes:
        place = folder / f"{recipe.name}-split-{recipe.data.split_index}"
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--jobs got {folder}, which cannot be written ({error}); give another folder") from error
        save_job(one_process(recipe), finetunes, data_dir, task_storage, place / JOB_FILE)
        console.print(f"{place / JOB_FILE}: pretraining and {len(finetunes)} fine-tunes", highlight=False)
    told = f"""Copy {folder} and the folder proser_core; then, there, in {folder.name}:
for job in */{JOB_FILE}; do python -m proser_core.job "$job" "$(dirname "$job")/{OUT}"; done
and here again the same command with --import-from {folder}/*/{OUT} instead of --jobs"""
    console.print(told, highlight=False, soft_wrap=True)


def take_outcomes(
    outs: Sequence[Path],
    wanted: Sequence[tuple[Recipe, dict[str, Any]]],
    finetunes: Sequence[FinetuneConfig],
    data_dir: Path | None,
    store: Store,
    bf16: bool,
    console: Console,
) -> None:
    """Copy what runners finished into the storage; `wanted` are recipes with their `prepare_inputs`.

    Raises CheckpointError for a file that is missing or was changed, ConfigError where a training of theirs is neither
    finished nor failed: nothing is trained here.
    """
    finished = {out: check_finished(out) for out in outs}
    for out, folders in finished.items():
        adopt_finished(out, folders, store, console)
    missing = []
    for recipe, inputs in wanted:
        task = task_at(recipe, inputs, data_dir, store)
        pretrained = find(plan_pretraining(recipe, task, store, bf16).folder)
        where = f"{recipe.name}, class split {recipe.data.split_index}"
        if pretrained is None:
            missing.append(f"{where}: the pretraining")
            continue
        trials = Base(recipe, task, pretrained).trials(finetunes, store, bf16)
        missing += [
            f"{where}: {trial.name}"
            for trial in trials
            if find(trial.folder) is None and not (trial.folder / spec.FAILURE).is_file()
        ]
    if missing:
        raise ConfigError(
            f"--import-from got {', '.join(map(str, outs))}, which {unfinished(missing)}; finish it with `python -m "
            f"proser_core.job`, and give the options and images that the job files were written with"
        )
