"""Heads on frozen features whose storage is behind a URI: they are trained by the driver, and reach the storage."""

from pathlib import Path

import pytest
from frozen_features import as_artefact, bright_task, frozen_recipe, job_of
from storages import Machines

from pipelines.cluster.cluster import Cluster
from proser_core.config import ClusterConfig
from proser_core.jobs import spec
from proser_core.jobs.embedding import embed_task
from proser_core.jobs.worker import run_job
from proser_core.store.store import load_if_complete


@pytest.mark.parametrize("machines", ["file"], indirect=True)
def test_what_the_driver_trains_is_found_on_another_machine(machines: Machines, tmp_path: Path) -> None:
    recipe, driver = frozen_recipe(tmp_path), machines.mirror("driver")
    task = as_artefact(bright_task(), driver.root / "prepare" / "task")
    embeddings = embed_task(recipe, task, driver, lambda done, total: None)
    job = job_of(recipe, "pretrain", task, driver)
    folder = Path(job.folder)
    Cluster(ClusterConfig(), driver).run_jobs([job], 1, "heads")
    driver.poll([folder])
    assert load_if_complete(folder) is not None, "a poll leaves what was trained here"
    other = machines.mirror("other")
    there = [other.root / path.relative_to(driver.root) for path in (folder, embeddings.path)]
    other.sync(there)
    assert all(load_if_complete(path) is not None for path in there)


@pytest.mark.parametrize("machines", ["file"], indirect=True)
def test_what_was_interrupted_keeps_its_first_epochs(machines: Machines, tmp_path: Path) -> None:
    recipe, driver = frozen_recipe(tmp_path), machines.mirror("driver")
    task = as_artefact(bright_task(), driver.root / "prepare" / "task")
    embed_task(recipe, task, driver, lambda done, total: None)
    job = job_of(recipe, "pretrain", task, driver)
    folder = Path(job.folder)

    def interrupt(metrics: object) -> None:
        if len(spec.read_epochs(folder)) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(job, interrupt)
    again = machines.mirror("driver")
    again.poll([folder])
    Cluster(ClusterConfig(), again).run_jobs([job], 1, "heads")
    assert [row["epoch"] for row in spec.read_epochs(folder)] == list(range(recipe.pretrain.epochs))
