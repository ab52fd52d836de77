"""For all tests: Ctrl-C reaches the processes that they start."""

import signal

# A shell that runs the suite in the background ignores SIGINT, and children would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
