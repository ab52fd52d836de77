"""A network of a method's own on Ray: it goes on after its last epoch, and ends as if it had never stopped."""

from contextlib import suppress
from pathlib import Path

import pytest
from training_jobs import StoppedError, ignore, stop_after, tiny_recipe

from pipelines.cluster.cluster import Cluster
from pipelines.storage.storage import Storage
from proser_core.digests import sha256_of
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.jobs.any_job import run_any
from proser_core.jobs.own_networks.plans import plan_network
from proser_core.jobs.spec import LOGITS, STATE, WEIGHTS, read_epochs
from proser_core.store.store import Artefact


@pytest.mark.slow
def test_a_network_that_was_stopped_goes_on_in_a_worker_of_ray_and_ends_the_same(
    task: Artefact, tmp_path: Path
) -> None:
    recipe, stores = tiny_recipe(), [Storage(tmp_path / name) for name in ("here", "there")]
    here, there = (plan_network(OWN_NETWORKS["DHRNet"], "quick", recipe, task, store) for store in stores)
    run_any(here.job(), ignore)
    with suppress(StoppedError):
        run_any(there.job(), stop_after(2))
    assert (there.folder / STATE).is_file()
    Cluster(recipe.cluster, stores[1]).run_jobs([there.job()], 1, "methods-0")
    assert there.failure() == ""
    assert len(read_epochs(there.folder)) == there.epochs
    for name in (WEIGHTS, LOGITS):
        assert sha256_of(there.folder / name) == sha256_of(here.folder / name), name
