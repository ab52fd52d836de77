"""MLflow's system metrics of a machine on which a command works: CPU, memory, disk, network and GPU."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mlflow.environment_variables import MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

from pipelines.console import warn
from pipelines.progress import explained_if_slow, poll_in_background
from pipelines.tracking.runs import ParentRun
from pipelines.tracking.server import tracking_uri
from proser_core.errors import first_line


class _LastingMonitor(SystemMetricsMonitor):
    """MLflow's own loop ends for good at the first request that fails, and where the run is not running."""

    def monitor(self) -> None:
        """Begin the loop again until the monitor is finished."""
        while not self._shutdown_event.is_set():
            super().monitor()
            self._shutdown_event.wait(self.sampling_interval)


class Monitor:
    """Logs them every ten seconds, of the machine that it is made on, from now on until it is finished; under the
    name of the machine, if one is given. They are of use while a server answers: what is not logged then is not logged
    later."""

    def __init__(self, run_id: str, uri: str, machine: str | None = None) -> None:
        logging.getLogger("mlflow.system_metrics").setLevel(logging.CRITICAL)  # the command reports an outage itself
        self._monitor = _LastingMonitor(run_id, resume_logging=True, node_id=machine, tracking_uri=uri)
        self._monitor.start()

    def finish(self) -> None:
        """Log the last values."""
        self._monitor.finish()


def are_wanted() -> bool:
    """Whether MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING is not false; raises ValueError for neither true nor false."""
    return bool(MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING.get())


@contextmanager
def system_metrics(run: ParentRun, on_slow_end: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Log those of this machine while the run is running: from now on, or once a finished one goes on. A monitor that
    fails to start is tried once, and the reason is said. `on_slow_end` is called where the last values take long."""
    monitors: list[Monitor] = []
    tried = False

    def begin() -> None:
        nonlocal tried
        if tried or run.status != "RUNNING":
            return
        tried = True
        try:
            if are_wanted():
                monitors.append(Monitor(run.run_id, tracking_uri()))
        except Exception as error:
            warn(f"the load of this machine is not logged ({first_line(error)}); the work goes on")

    begin()
    try:
        with poll_in_background(begin, lambda error: None):
            yield
    finally:
        with explained_if_slow(on_slow_end):
            for monitor in monitors:
                monitor.finish()
