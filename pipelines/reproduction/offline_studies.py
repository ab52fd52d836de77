"""The studies of a reproduction on machines without Ray: a job file per class split, and their outcome back, by way of
`workflow.offline_jobs`."""

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from rich.console import Console

from pipelines.console import say
from pipelines.reproduction.request import ReproduceRequest
from pipelines.storage.option import DEFAULT_STORAGE
from pipelines.workflow.offline_jobs import (
    adopt_finished,
    check_finished,
    lacking,
    read_job,
    read_results,
    save_job,
    unfinished_trainings,
)
from pipelines.workflow.training import TrainingInputs
from proser_core.errors import ConfigError
from proser_core.jobs.job_folder import OUT
from proser_core.jobs.own_networks.methods import OwnMethods
from proser_core.jobs.preparing import prepare_task
from proser_core.jobs.runner import JOB_FILE, RESULTS
from proser_core.store.store import Store
from proser_core.titles import counted


def check_options(request: ReproduceRequest) -> None:
    """Raises ConfigError for options that exclude each other."""
    jobs = request.jobs is not None
    options = {
        "--jobs": jobs,
        "--with-task": request.with_task,
        "--import-from": request.import_from,
        "--dry-run": request.dry_run,
    }
    for one, other, why in (
        ("--jobs", "--import-from", "the one writes job files, the other imports their results"),
        ("--jobs", "--dry-run", "--jobs trains nothing and only writes files"),
        ("--import-from", "--dry-run", "--import-from trains nothing and copies what is finished"),
        ("--import-from", "--with-task", "--with-task is for --jobs"),
    ):
        if options[one] and options[other]:
            raise ConfigError(f"{one} was given with {other}: {why}; omit one of them")
    if request.with_task and not jobs:
        raise ConfigError("--with-task writes images next to the job files, and needs --jobs FOLDER; give both")
    if isinstance(request.storage, str) and (request.with_task or request.import_from):
        raise ConfigError(
            f"--storage got {request.storage}; --with-task and --import-from work in a folder, give one (default "
            f"{DEFAULT_STORAGE})"
        )


def write_jobs(
    studies: Sequence[TrainingInputs], storage: Path | None, folder: Path, own_methods: OwnMethods, console: Console
) -> None:
    """Write a job file for each class split, `folder`/STUDY[-FAMILY]-split-N/JOB.json, and print how to run them all;
    with a storage, prepared images beside each. Raises ProserError for what cannot be trained there, or a file that
    cannot be written."""
    trainings = ((recipe, study.finetunes, study.data_dir) for study in studies for recipe in study.recipes)
    for recipe, finetunes, data_dir in trainings:
        data = recipe.data
        place = folder / "-".join(filter(None, (recipe.name, data.split_family, f"split-{data.split_index}")))
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"--jobs got {folder}, which cannot be written ({error.strerror}); give another folder"
            ) from error
        save_job(recipe, finetunes, data_dir, storage, place / JOB_FILE, console, "--jobs", own_methods)
        networks = f"; {'; '.join(network.name for network in own_methods.networks)}" if own_methods.names else ""
        say(console, f"{place / JOB_FILE}: pretraining and {counted(len(finetunes), 'fine-tune')}{networks}")
    instead = f"instead of --jobs{' --with-task' if storage else ''}"
    say(console, f"Copy {folder} and the folder proser_core to one place; then, there:")
    say(console, f"python -m proser_core.job {quote(folder.resolve().name)}")
    say(console, f"and here again this command with --import-from {quote(str(folder))}/*/{OUT} {instead}")


def take_outcomes(
    outs: Sequence[Path], studies: Sequence[TrainingInputs], store: Store, console: Console, own_methods: OwnMethods
) -> None:
    """Copy what runners finished of these studies into the storage. Raises CheckpointError for a file that is missing
    or was changed, ConfigError for other code, another precision, or a training that neither finished nor failed."""
    precision = studies[0].recipes[0].precision
    for out in outs:
        read_job(out)
        # there are none where the pretraining failed
        trained_in = read_results(out).precision if (out / RESULTS).is_file() else precision
        if trained_in != precision:
            raise ConfigError(
                f"{out} was trained in {trained_in}, and this command trains in {precision}; give --precision "
                f"{trained_in}"
            )
    finished = {out: check_finished(out) for out in outs}
    for out, folders in finished.items():
        adopt_finished(out, folders, store, console)
    missing = [
        f"{recipe.name}, split {recipe.data.split_index}: {name}"
        for study in studies
        for recipe, inputs in zip(study.recipes, study.data_inputs, strict=True)
        for name in unfinished_trainings(
            recipe, prepare_task(recipe, inputs, study.data_dir, store), study.finetunes, outs, store, own_methods
        )
    ]
    if missing:
        raise ConfigError(
            f"--import-from got {', '.join(map(str, outs))}, which {lacking(missing)}; finish it with `python -m "
            f"proser_core.job`, and give the options and images that the job files were written with"
        )
