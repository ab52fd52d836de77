"""For all tests: Ctrl-C reaches the processes that they start, property tests are drawn alike on every machine, and a
small network on digits has been trained."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from threadpoolctl import threadpool_limits
from training_jobs import ignore, tiny_recipe, training_job

from proser_core.jobs import spec
from proser_core.jobs.preparing import save_task
from proser_core.store.store import Artefact, write_manifest

torch.set_num_threads(1)  # more threads slow down tensors as small as these
threadpool_limits(1, user_api="blas")  # and matrices: each product waits for a core that another process holds

# A shell that runs the suite in the background ignores SIGINT, and children would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("quick", deadline=None, max_examples=40, derandomize=True, database=None)
settings.load_profile("quick")


@pytest.fixture(autouse=True)
def hears_ctrl_c() -> Iterator[None]:
    """Also after a command that was interrupted in this process, which ignores Ctrl-C from then on."""
    yield
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """The tiny recipe's task, as the save_task stage leaves it."""
    folder = tmp_path_factory.mktemp("task")
    save_task(tiny_recipe(), None, folder)
    return write_manifest(folder, {})


@pytest.fixture(scope="session")
def closed_set_weights(task: Artefact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Closed-set weights of a network that has trained for two epochs."""
    from proser_core.jobs.worker import run_job

    folder = tmp_path_factory.mktemp("pretrained")
    run_job(training_job(task, folder, kind="pretrain"), notify=ignore)
    return folder / spec.WEIGHTS
