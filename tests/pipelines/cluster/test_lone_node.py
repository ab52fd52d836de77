"""The raylet of a Ray that a command started for itself is killed: the command ends, and does not wait for ever."""

import subprocess
import sys

import pytest

WAITING = """
import time
import psutil, ray
from pipelines.cluster.lone_node import watched_node
from pipelines.cluster.session import join
from proser_core.errors import ClusterError

join("")
(raylet,) = [each for each in psutil.Process().children(recursive=True) if each.name() == "raylet"]
try:
    with watched_node():
        raylet.kill()
        while True:  # as Tune's loop, which waits for actors that cannot start
            time.sleep(0.1)
except ClusterError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_lost_node_ends_the_wait() -> None:
    found = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, timeout=120, check=False)
    assert "the raylet, was killed or lost" in found.stdout, found.stderr
    assert "the same command goes on" in found.stdout
