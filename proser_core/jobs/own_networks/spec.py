"""A training of a network of a method's own as data: what a worker receives.

Light to import: nothing here loads torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proser_core.config.own_networks import ScheduleName
from proser_core.jobs.spec import Job

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
