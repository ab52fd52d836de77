"""The one way to run a job of any kind."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from proser_core.data.tasks import OpenStream
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.generative.own_network import TaskShape
from proser_core.jobs.own_networks.spec import OwnJob
from proser_core.jobs.own_networks.worker import train_files
from proser_core.jobs.spec import Job
from proser_core.jobs.worker import run_job
from proser_core.learning.fit import Metrics


def run_any(job: Job, notify: Callable[[Metrics], None], open_stream: OpenStream = lambda stored: stored) -> None:
    """As `run_job`, for a job of any kind. Raises ConfigError for a network that this process knows nothing of."""
    if not isinstance(job, OwnJob):
        run_job(job, notify, open_stream)
        return
    network = OWN_NETWORKS[job.network]
    parts = {OWN_NETWORKS[name]: Path(path) for name, path in job.parts.items()}

    def load_parts(shape: TaskShape, device: torch.device) -> dict[str, nn.Module]:
        restored = {part.name: part.restored(shape, part.schedules[job.schedule], path) for part, path in parts.items()}
        for part in restored.values():  # in the memory in which `train_own` leaves it: kernels round by it
            part.to(device, memory_format=torch.channels_last).requires_grad_(False)  # type: ignore[call-overload]
        return restored

    train_files(job, network, network.schedules[job.schedule], load_parts, notify, open_stream)
