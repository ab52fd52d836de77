"""For all tests: Ctrl-C reaches the processes that they start, and property tests are drawn alike on every machine."""

import signal
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)  # more threads slow down tensors as small as these

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
