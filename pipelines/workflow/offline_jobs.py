"""To a machine without Ray and back: `proser job` writes the trainings, `proser import` takes their outcome. The
fine-tunes of JOB.json are the sweep of an import, which trains nothing."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote

from rich.console import Console

from pipelines.console import say
from pipelines.output_files import check_output
from pipelines.storage.opening import open_storage
from pipelines.tracking.server import shown_uri
from pipelines.workflow.checks import decide_features
from pipelines.workflow.requests import JobRequest
from pipelines.workflow.running import open_run_of, run_and_register
from pipelines.workflow.session import open_session
from pipelines.workflow.stages.pretrain import found_pretraining
from pipelines.workflow.trained_split import TrainedSplit
from pipelines.workflow.training import TrainingInputs, finetunes_of, points_of
from proser_core.config import FinetuneConfig, Recipe, to_json
from proser_core.config.recipe import Precision
from proser_core.data.data_sets import DataRoot, listed_once, path_of
from proser_core.data.preparation import split_of
from proser_core.errors import CheckpointError, ConfigError, TrainingError
from proser_core.jobs import spec
from proser_core.jobs.job_file import CodeVersions, JobFile, read_job_file
from proser_core.jobs.own_networks.methods import NO_METHODS, OwnMethods, plan_methods
from proser_core.jobs.own_networks.plans import METHODS_FOLDER
from proser_core.jobs.preparing import prepare_inputs, prepare_task
from proser_core.jobs.runner import JOB_FILE, RESULTS
from proser_core.jobs.spec import PREPARE, PRETRAIN, TRIALS
from proser_core.jobs.task_checks import check_prepared_for, refuse_among_images, refuse_streaming
from proser_core.jobs.trials import check_recipe, plan_pretraining
from proser_core.networks.pretrained import with_pretrained
from proser_core.store.files import disk_full_errors, read_json, write_atomically
from proser_core.store.store import (
    MANIFEST,
    Artefact,
    Store,
    check_artefact,
    check_key,
    import_artefact,
    load_if_complete,
)
from proser_core.titles import counted

TASK = "task"
"""The folder beside a job file for the images that travel with it."""
RUNNER_FOLDERS = (PREPARE, PRETRAIN, TRIALS, METHODS_FOLDER)
"""Folders of a runner's OUT."""


def write_job(request: JobRequest, console: Console) -> None:
    """Write the recipe's trainings, for one process, and the prepared task next to them if it is asked for. Raises
    ProserError for what cannot be trained, or a file that cannot be written."""
    output = request.output
    if request.recipe.stop_early:
        raise ConfigError(
            "stop_early is set, and a machine without Ray trains one point after the other to its end; omit it"
        )
    data_dir, storage = listed_once(request.data_dir), request.storage if request.with_task else None
    if storage is not None:  # a file makes no class of the folder that it is in
        written = {"--storage": storage, "--output": output.parent / TASK}
        refuse_among_images(request.recipe.data, data_dir, written)
    recipe = decide_features(with_pretrained(one_process(request.recipe, console)), data_dir)
    finetunes = finetunes_of(recipe, points_of(recipe, recipe.space))
    beside = save_job(recipe, finetunes, data_dir, storage, output, console)
    copied = ", ".join(["it", *beside])
    trainings = f"pretraining and {counted(len(finetunes), 'fine-tune')}"
    say(console, f"{output}: {trainings}. Copy {copied} and the folder proser_core; then, there:")
    say(console, f"python -m proser_core.job {quote(output.name)} OUT")


def one_process(recipe: Recipe, console: Console) -> Recipe:
    """The recipe as a single process trains it; prints what that changes."""
    cluster = replace(recipe.cluster.with_one_worker(), address="")
    changed = {name: value for name, value in vars(cluster).items() if value != getattr(recipe.cluster, name)}
    if changed:
        changes = " and ".join(f"cluster.{name} {'empty' if value == '' else value}" for name, value in changed.items())
        say(console, f"one process trains all, here with {changes}")
    return replace(recipe, cluster=cluster)


def save_job(
    recipe: Recipe,
    finetunes: Sequence[FinetuneConfig],
    data_dir: DataRoot,
    storage: Path | None,
    output: Path,
    console: Console,
    option: str = "--output",
    own_methods: OwnMethods = NO_METHODS,
) -> list[str]:
    """Write one job file, with a storage also the prepared images; the names of what lies next to it and travels with
    it. Raises ProserError for what cannot be trained, or a file, given by `option`, that cannot be written."""
    check_output(output, option)
    refuse_streaming(recipe)
    check_recipe(recipe)
    if recipe.calibration.development:
        raise ConfigError(
            f"calibration.development names {', '.join(recipe.calibration.development)}, and an import reads no data "
            "sets; leave it empty here, and give it to `proser run`, which finds what is trained"
        )
    split_of(recipe.data, data_dir)  # refuses images that do not fit
    code, task = CodeVersions.current(own_methods), None
    with disk_full_errors(output.parent):
        if storage is not None:
            with open_storage(storage, f"the images of {output}", partial(say, console)) as store:
                prepared = prepare_task(recipe, prepare_inputs(recipe, data_dir), data_dir, store)
                beside = Store(output.parent)
                task = import_artefact(prepared.path, TASK, beside).path.relative_to(beside.root)
        root = path_of(data_dir)
        place = root.resolve() if root is not None and task is None else None
        weights = JobFile(recipe, tuple(finetunes), task, place, code, own_methods).save(output)
    return [str(name) for name in (task, weights) if name]


def import_job(out: Path, storage: Path, console: Console) -> int:
    """Put what `python -m proser_core.job` trained into storage, tracking and registry; 1 where a fine-tune failed
    there. Raises CheckpointError for a file that is missing or was changed, TrainingError where the pretraining failed
    there, ConfigError for trainings that did not finish or are of methods with networks of their own."""
    started = time.monotonic()
    job = read_job(out)
    if job.own_methods.names:
        raise ConfigError(
            f"{out / JOB_FILE} has own_methods, {', '.join(job.own_methods.names)}, whose networks no run of a recipe "
            f"reports; give the `proser reproduce --jobs` command again, with --import-from {out} instead of --jobs"
        )
    results = read_results(out)
    finished = check_finished(out)
    say(console, f"{out}: storage {storage}, tracking {shown_uri()}")
    with open_session(job.recipe.cluster, storage, console, f"proser import {out}") as session:
        adopt_finished(out, finished, session.store, console)
        inputs, of_space = _inputs(job, results, out, session.store)
        listed = [] if of_space else [[to_json(tuned) for tuned in inputs.finetunes]]
        run = open_run_of(session.store, inputs.recipes[0], inputs, listed)
        return run_and_register(inputs, session.follow(run, trains=False), started)


@dataclass(frozen=True)
class Results:
    """Contents of results.json: the key of the prepared task, and the precision."""

    task: str
    precision: Precision


def check_finished(out: Path) -> list[Path]:
    """Every finished folder of a runner's OUT. Raises CheckpointError for a file that is missing or was changed."""
    folders = sorted(path.parent for stage in RUNNER_FOLDERS for path in out.glob(f"{stage}/*/{MANIFEST}"))
    for folder in folders:
        check_key(folder, check_artefact(folder))
    return folders


def adopt_finished(out: Path, folders: Sequence[Path], store: Store, console: Console) -> None:
    """Copy finished folders of a runner's OUT into the storage, and why other trainings failed."""
    there = sum(load_if_complete(store.root / folder.parent.name / folder.name) is not None for folder in folders)
    for folder in folders:
        import_artefact(folder, folder.parent.name, store)
    say(console, f"{counted(len(folders) - there, 'finished folder')} copied, {there} there already")
    for failure in (path for stage in RUNNER_FOLDERS for path in out.glob(f"{stage}/*/{spec.FAILURE}")):
        source = failure.parent
        target = store.root / source.parent.name / source.name
        if load_if_complete(target) is None:
            goes_on = (target / spec.STATE).is_file()  # with the epochs before that checkpoint
            for name in (spec.FAILURE,) if goes_on else (spec.EPOCHS, spec.FAILURE):
                if (source / name).is_file():
                    write_atomically(target / name, (source / name).read_bytes())


def _has_ended(folder: Path, outs: Sequence[Path]) -> bool:
    """Whether the training of a folder of the storage is finished there, or failed in one of the runners' OUTs."""
    there = (out / folder.parent.name / folder.name / spec.FAILURE for out in outs)
    return load_if_complete(folder) is not None or any(failure.is_file() for failure in there)


def read_job(out: Path) -> JobFile:
    """What a runner was asked. Raises ConfigError where that was for other code."""
    job = read_job_file(out / JOB_FILE)
    if not job.code.has_keys_of(CodeVersions.current(job.own_methods)):
        raise ConfigError(
            f"{out / JOB_FILE} has code versions of another Python, whose results are kept apart; "
            "write the job again here, and run that"
        )
    return job


def read_results(out: Path) -> Results:
    """The results.json of a runner. Raises CheckpointError where it is missing or cannot be read, TrainingError where
    the pretraining failed, after which there is none."""
    try:
        results = read_json(out / RESULTS)
        return Results(str(results["task"]), "bf16" if results["bf16"] else "fp32")
    except (OSError, ValueError, TypeError, KeyError):
        failure = next(out.glob(f"{PRETRAIN}/*/{spec.FAILURE}"), None)
        if failure is not None:
            raise TrainingError(
                f"the pretraining of {out} failed: {spec.read_failure(failure.parent)}; run "
                "`python -m proser_core.job` again once the cause is gone"
            ) from None
        raise CheckpointError(
            f"{out / RESULTS} is missing or cannot be read; run `python -m proser_core.job` on {out} to its end"
        ) from None


def _inputs(job: JobFile, results: Results, out: Path, store: Store) -> tuple[TrainingInputs, bool]:
    """The inputs of the import's run, and whether its fine-tunes are those of the recipe's own search space. Raises
    ConfigError for what JOB.json lists and neither `out` nor the storage holds."""
    task = load_if_complete(store.root / PREPARE / results.task)
    if task is None:
        raise ConfigError(f"{out} has no prepared task {results.task}; run `python -m proser_core.job` to its end")
    recorded = read_json(task.path / MANIFEST)["inputs"]
    check_prepared_for(job.recipe, recorded, job.code.prepare, task.path)
    recipe = replace(job.recipe, precision=results.precision)
    missing = list(unfinished_trainings(recipe, task, job.finetunes, [out], store))
    if missing:
        finish = f"python -m proser_core.job {quote(str(out / JOB_FILE))} {quote(str(out))}"
        raise ConfigError(f"{out} {lacking(missing)}; finish it with `{finish}`")
    split = TrainedSplit(recipe, task, found_pretraining(plan_pretraining(recipe, task, store.root)))
    trials = split.trials(job.finetunes, store)
    if all(trial.is_control or load_if_complete(trial.folder) is None for trial in trials):
        raise ConfigError(f"{out} has no finished PROSER fine-tune, and one must be selected; add one to {JOB_FILE}")
    points = _points_of(job)
    of_recipe = finetunes_of(job.recipe, points)
    of_space = {trial.key for trial in split.trials(of_recipe, store)} == {trial.key for trial in trials}
    inputs = TrainingInputs(
        recipes=[recipe],
        data_dir=None,
        data_inputs=[{name: value for name, value in recorded.items() if name != "code"}],
        finetunes=of_recipe if of_space else list(job.finetunes),
        spaces={job.recipe.space: points} if job.recipe.space else {},
    )
    return inputs, of_space


def _points_of(job: JobFile) -> list[FinetuneConfig]:
    """The points of the job's search space; where that is a user's own file, which this machine lacks, the job's own
    fine-tunes."""
    space = job.recipe.space
    if space.endswith(".py") and not Path(space).is_file():
        return [tuned for tuned in job.finetunes if tuned.objective == "proser"]
    return points_of(job.recipe, space)


def unfinished_trainings(
    recipe: Recipe,
    task: Artefact,
    finetunes: Sequence[FinetuneConfig],
    outs: Sequence[Path],
    store: Store,
    own_methods: OwnMethods = NO_METHODS,
) -> Iterator[str]:
    """Trainings of a class split that are neither finished in the storage nor failed in the runners' OUTs, by name."""
    folder = plan_pretraining(recipe, task, store.root).folder
    if not _has_ended(folder, outs):
        yield "the pretraining"
    pretrained = load_if_complete(folder)
    if pretrained is None:  # after a failed one the runner trains nothing else
        return
    trials = TrainedSplit(recipe, task, pretrained).trials(finetunes, store)
    yield from (trial.name for trial in trials if not _has_ended(trial.folder, outs))
    for plan in plan_methods(own_methods, recipe, task, store):
        if not _has_ended(plan.folder, outs) and all(load_if_complete(part.folder) for part in plan.parts):
            yield plan.network.name  # without a part that failed it could not be trained


def lacking(names: Sequence[str]) -> str:
    """What an import lacks, in words."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"lacks {'; '.join(names[:3])}{more}, and nothing is trained in an import"
