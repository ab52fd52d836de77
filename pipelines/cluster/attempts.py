"""How often a training is attempted, and the reason that is reported for one that did not end by itself."""

import re
from pathlib import Path

import ray

from proser_core.errors import last_line

RETRIES = 3
"""Workers or machines that one training may lose before it counts as failed."""
MEMORY_PAUSE_S = 5.0  # before a training whose machine was low on memory begins again
LOW_MEMORY = re.compile(r"low on memory.*?(?:actual memory used=(?P<held>[\d.]+)GB|\Z)", re.DOTALL)
"""Ray's error of a process that its memory monitor ended, read in Ray 2.60."""
DIED = re.compile(r"\bpid: (\d+).*\bip: (\S+).*Worker exit type: SYSTEM_ERROR", re.DOTALL)
"""Ray 2.60's error of a process that ended without a Python exception; another text is shown as it is."""


LEFT = f"its machines were preempted {RETRIES + 1} times; the same command continues from its last epoch"


class LeavingError(Exception):
    """A training's machine will go away; another attempt goes on elsewhere, before an epoch is begun and lost."""


class CrowdedError(Exception):
    """Ray ended processes of a training for lack of memory, as often as it is attempted; with the reason to record."""


def failure_reason(error: BaseException) -> str:
    """The worker's own message where Ray forwards one; where its process died without one, the place of its log."""
    low = LOW_MEMORY.search(str(error))
    if low:
        held = f" ({low['held']} GB)" if low["held"] else ""
        return (
            f"Ray ended one of its processes{held}, because the machine was low on memory, {RETRIES + 1} times; free "
            "some memory, or train fewer at a time with --cluster.max-concurrent"
        )
    died = DIED.search(str(error))
    return unreported_exit(pid=died[1], address=died[2]) if died else last_line(error)


def is_low_memory(error: BaseException) -> bool:
    """Whether Ray's memory monitor ended the process."""
    return LOW_MEMORY.search(str(error)) is not None


def unreported_exit(pid: str = "", address: str = "") -> str:
    """The reason where a worker reported none: its log files on its machine, or all logs on all machines."""
    reason = "the worker exited without reporting an error"
    if not ray.is_initialized():
        return reason
    files = f"*{pid}.*" if pid else "*worker-*"
    logs = [
        f"{Path(node['RayletSocketName']).parents[1]}/logs/{files} on {node['NodeManagerAddress']}"
        for node in ray.nodes()
        if node["NodeManagerAddress"] == address or (node["Alive"] and not address)
    ]
    return f"{reason}; its log is in {', '.join(logs)}"
