"""MLflow's system metrics of the machine on which a command runs: CPU, memory, disk, network and GPU."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mlflow.environment_variables import MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

from pipelines.tracking.runs import ParentRun


@contextmanager
def system_metrics(run: ParentRun) -> Iterator[None]:
    """Log them every ten seconds while the run is running, unless MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING is false. They
    are of use while a server answers: what is not logged then is not logged later."""
    if run.status != "RUNNING" or not MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING.get():
        yield
        return
    logging.getLogger("mlflow.system_metrics").setLevel(logging.CRITICAL)  # of an outage the user is told anyway
    monitor = SystemMetricsMonitor(run.run_id, resume_logging=True)
    monitor.start()
    try:
        yield
    finally:
        monitor.finish()
