"""For all tests: Ctrl-C reaches the processes that they start, and property tests are drawn alike on every machine."""

import signal

import torch
from hypothesis import settings

torch.set_num_threads(1)  # more threads slow down tensors as small as these

# A shell that runs the suite in the background ignores SIGINT, and children would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("quick", deadline=None, max_examples=40, derandomize=True, database=None)
settings.load_profile("quick")
