"""The 25 points of beta and gamma on one GPU: in turn by the core's runner, and several processes at a time.

With `--quick` and without `--device cuda` it only shows on a CPU that it runs.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import torch

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Cell, Report, Table, Target
from benchmarks.harness.timing import on_threads
from benchmarks.variants.process_pool import pool_seconds
from proser_core.config import ClusterConfig, DataConfig, FinetuneConfig, NetworkConfig, PretrainConfig, Recipe
from proser_core.errors import ConfigError
from proser_core.jobs import runner
from proser_core.jobs.job_file import CodeVersions, JobFile
from proser_core.jobs.progress import EpochProgress
from proser_core.jobs.spec import PREPARE, TRIALS, Job
from proser_core.jobs.trials import plan_trials
from proser_core.store.files import read_json
from proser_core.store.store import MANIFEST, Store, load_if_complete
from proser_core.titles import PRETRAINED

WEIGHTS = (0.0, 0.01, 0.1, 1.0, 10.0)  # of the space trade_off, which imports Ray
EPOCHS, BOUND = 10, 60.0
AT_ONCE, QUICK_AT_ONCE = (2, 4, 8), (2,)


def check(settings: Settings) -> None:
    """Raises ConfigError for a CPU, which measures nothing, or without a data set to train on."""
    if not settings.quick and settings.device != "cuda":
        raise ConfigError("gpu_trials measures trainings on a GPU; give --device cuda, or --quick to see that it runs")
    if not settings.quick and settings.data_dir is None:
        raise ConfigError(
            "gpu_trials trains on CIFAR100, with unknowns of CIFAR10; give --data-dir, the folder that holds both"
        )


def run(settings: Settings) -> Report:
    """Seconds of all points, each variant once, on a network that was pretrained for one epoch."""
    recipe, points = recipe_of(settings), points_of(settings)
    progress = EpochProgress(sys.stderr)
    with tempfile.TemporaryDirectory() as folder, on_threads(recipe.cluster.cpus_per_worker):
        place = Path(folder)
        job = JobFile(recipe, (), None, settings.data_dir, CodeVersions.current())
        jobs = _jobs(job, points, runner.run(job, place / "out", progress), place / "out")  # pretrains, and no more
        start = time.perf_counter()
        outcome = runner.run(replace(job, finetunes=points), place / "out", progress)
        wall = time.perf_counter() - start
        if outcome.failures:
            raise RuntimeError(f"trainings failed: {outcome.failures}")
        training = _training_seconds(place / "out" / TRIALS)
        rows: list[tuple[Cell, ...]] = [("in turn, by the core's runner", 1, wall, training, training / len(points))]
        for workers in QUICK_AT_ONCE if settings.quick else AT_ONCE:
            pool = place / f"pool of {workers}"
            wall = pool_seconds(jobs, pool, workers)
            rows.append(("pool of processes", workers, wall, None, _training_seconds(pool) / len(points)))
    return _report(rows, training, recipe, settings)


def _report(rows: list[tuple[Cell, ...]], training: float, recipe: Recipe, settings: Settings) -> Report:
    """One table, and the target for the time of training in turn, which takes a GPU and all points."""
    note = (
        f"{len(points_of(settings))} points of {recipe.finetune.epochs} epochs of {recipe.data.name}, one split. "
        "Training: the epochs of all points, without checkpoints and scoring; of one point among others, with them "
        "waiting for each other. All of it: with checkpoints and scores, in turn with metrics too, of a pool with the "
        "start of its processes."
    )
    where = torch.cuda.get_device_name() if settings.device == "cuda" else "the CPU, which measures nothing"
    columns = ("variant", "processes", "s, all of it", "s, training", "s, training of one point")
    measured = None if settings.quick else training
    what = f"seconds of training, {len(WEIGHTS) ** 2} points of {EPOCHS} epochs in turn on a GPU"
    target = Target(what, measured, BOUND, at_least=False, unit="s")
    return Report([Table(f"Many trials on {where}", columns, rows, (note,))], [target])


def recipe_of(settings: Settings) -> Recipe:
    """CIFAR100 with the paper's fine-tune, or a few small digits."""
    cluster = ClusterConfig(gpus_per_worker=1.0 if settings.device == "cuda" else 0.0)
    if not settings.quick:
        return Recipe(
            name="gpu-trials",
            data=DataConfig(name="cifar100"),
            network=NetworkConfig(dropout=0.2),
            pretrain=PretrainConfig(epochs=1, batch_size=128),
            finetune=FinetuneConfig(epochs=EPOCHS),
            cluster=cluster,
        )
    data = DataConfig(name="digits", image_size=settings.image_size, num_known=5, unknown_settings=(3,), padding=1)
    return Recipe(
        name="gpu-trials-quick",
        data=replace(data, development="held-out-2", val_fraction=0.2),
        pretrain=PretrainConfig(epochs=1, batch_size=128),
        finetune=FinetuneConfig(epochs=1, batch_size=128),
        cluster=cluster,
    )


def points_of(settings: Settings) -> tuple[FinetuneConfig, ...]:
    """Every pair of the two weights, or two of them."""
    tuned = recipe_of(settings).finetune
    points = tuple(replace(tuned, beta=beta, gamma=gamma) for beta, gamma in product(WEIGHTS, WEIGHTS))
    return points[:2] if settings.quick else points


def _jobs(job: JobFile, points: Sequence[FinetuneConfig], outcome: runner.Outcome, out: Path) -> list[Job]:
    """The points as jobs of workers, on what the runner prepared and pretrained."""
    results, store = outcome.results, Store(out)
    task = load_if_complete(store.root / PREPARE / results["task"])
    pretrained = load_if_complete(store.root / results["trainings"][PRETRAINED]["folder"])
    assert task is not None
    assert pretrained is not None
    trials = plan_trials(job.recipe, points, task, pretrained, store, job.code.train)
    return [trial.job(task, pretrained) for trial in trials]


def _training_seconds(folder: Path) -> float:
    return sum(read_json(path)["seconds"] for path in folder.glob(f"*/{MANIFEST}"))
