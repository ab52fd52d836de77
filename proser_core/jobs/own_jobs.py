"""A training of a network of a method's own as data, and the one way to run a job of any kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from proser_core.config.own_networks import ScheduleName
from proser_core.data.tasks import OpenStream
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.generative.own_network import TaskShape
from proser_core.jobs.own_worker import train_files
from proser_core.jobs.spec import Job
from proser_core.jobs.worker import run_job
from proser_core.learning.fit import Metrics
from proser_core.naming import look_up

OWN = "own"
"""Kind of such a job."""


@dataclass(frozen=True)
class OwnJob(Job):
    """A training of a network of `OWN_NETWORKS`; `parts` are files of weights of those that it needs, by name."""

    network: str = ""
    schedule: ScheduleName = "quick"
    parts: dict[str, str] = field(default_factory=dict)


def job_of(values: Mapping[str, Any]) -> Job:
    """Inverse of `Job.to_json`, for a job of any kind."""
    return OwnJob(**values) if values["kind"] == OWN else Job(**values)


def weight_files(job: Job) -> list[str]:
    """Every file of weights that a job begins from."""
    parts = job.parts.values() if isinstance(job, OwnJob) else ()
    return [path for path in (job.weights, *parts) if path]


def run_any(job: Job, notify: Callable[[Metrics], None], open_stream: OpenStream = lambda stored: stored) -> None:
    """As `run_job`, for a job of any kind. Raises ConfigError for a network that this process knows nothing of."""
    if not isinstance(job, OwnJob):
        run_job(job, notify, open_stream)
        return
    network = look_up("network", job.network, OWN_NETWORKS)
    parts = {OWN_NETWORKS[name]: Path(path) for name, path in job.parts.items()}

    def load_parts(shape: TaskShape, device: torch.device) -> dict[str, nn.Module]:
        return {
            part.name: part.restored(shape, part.schedules[job.schedule], path).to(device).requires_grad_(False)
            for part, path in parts.items()
        }

    train_files(job, network, network.schedules[job.schedule], load_parts, notify, open_stream)
