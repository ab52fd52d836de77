"""The raylet of a Ray that a command started for itself is killed: the command ends, and does not wait for ever, in the
background of a script either, where Ctrl-C is ignored."""

import subprocess
import sys

import pytest

WAITING = """
import signal
import time
import psutil, ray
from pipelines.cluster.lone_node import watched_node
from pipelines.cluster.session import join
from pipelines.commands.signals import terminated_by_signals
from proser_core.errors import ClusterError

join("")
(raylet,) = [each for each in psutil.Process().children(recursive=True) if each.name() == "raylet"]
raylet.kill()
for handler in (signal.default_int_handler, signal.SIG_IGN):
    signal.signal(signal.SIGINT, handler)
    try:
        with terminated_by_signals(), watched_node():
            while True:  # as Tune's loop, which waits for actors that cannot start
                time.sleep(0.1)
    except ClusterError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_lost_node_ends_the_wait() -> None:
    found = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, timeout=120, check=False)
    assert found.stdout.count("the raylet, was killed or lost") == 2, found.stderr
    assert found.stdout.count("the same command continues") == 2
