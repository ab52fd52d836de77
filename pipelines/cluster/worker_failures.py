"""Why a worker failed, in words for the user, and where its log is."""

import re
from pathlib import Path

from proser_core.errors import last_line

DIED = re.compile(r"\bpid: (\d+).*\bip: (\S+).*Worker exit type: SYSTEM_ERROR", re.DOTALL)
"""Ray 2.60's error of a process that ended without a Python exception; another text is shown as it is."""


def failure_reason(error: BaseException) -> str:
    """The worker's own message where Ray forwards one; where its process died without one, the place of its log."""
    died = DIED.search(str(error))
    return unreported_exit(pid=died[1], address=died[2]) if died else last_line(error)


def unreported_exit(pid: str = "", address: str = "") -> str:
    """Reason of a worker that left none, with the files of its log on its machine, or of all logs on all machines."""
    import ray  # a second that only a failure costs

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
