"""Workers and their resources."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from proser_core.config.checks import Block, is_not_negative


@dataclass(frozen=True, kw_only=True)
class ClusterConfig(Block):
    """Workers and their resources, under Ray or in one process without it. Worker counts, threads, and the
    choice of CPU or GPU change a result; the other fields, which only Ray reads, do not."""

    prefix: ClassVar[str] = "cluster."

    num_workers: int = 1
    """DDP workers per fine-tune; each gets its part of every batch."""
    min_workers: int = 0
    """Fewest DDP workers with which a fine-tune starts, or continues after a machine was lost; it takes more, up to
    num_workers, when there is room again. 0: always num_workers. The batch stays the same, but batch norm and dropout
    work per worker, so the result depends on how many there were."""
    pretrain_workers: int = 1
    """DDP workers of the pretraining; each gets its part of every batch."""
    cpus_per_worker: int = 1
    """CPU cores, and compute threads, per worker. Without a cluster, a pretraining also uses idle cores, unless times
    are compared; its result is the same except for rounding."""
    gpus_per_worker: float = 0.0
    """GPUs per worker; a fraction below 1 puts several trainings on one GPU, if each has one worker."""
    max_concurrent: int = 0
    """Largest number of trainings at a time; 0 is as many as the resources allow."""
    address: str = ""
    """Address of a running Ray cluster, or `auto`; empty starts Ray on this machine."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("num_workers", "pretrain_workers", "cpus_per_worker"):
            self.require(name, getattr(self, name) >= 1, "at least 1")
        fewer = f"0, or 1 or more and fewer than num_workers ({self.num_workers})"
        self.require("min_workers", 0 <= self.min_workers < max(self.num_workers, 1), fewer)
        self.require("gpus_per_worker", is_not_negative(self.gpus_per_worker), "at least 0")
        parts = self.gpus_per_worker % 1 > 0
        self.require("gpus_per_worker", not (parts and self.gpus_per_worker > 1), "a whole number above 1")
        whole = "a whole number where num_workers or pretrain_workers is above 1: two workers cannot share a GPU"
        self.require("gpus_per_worker", not (parts and max(self.num_workers, self.pretrain_workers) > 1), whole)
        self.require("max_concurrent", self.max_concurrent >= 0, "0 or more")

    def is_elastic(self, kind: str) -> bool:
        """Whether a training of this kind may have fewer workers than it asks for: a fine-tune, not a pretraining."""
        return kind == "finetune" and self.min_workers > 0

    def with_one_worker(self) -> Self:
        """The same with one worker per training, which is then never elastic."""
        return replace(self, num_workers=1, min_workers=0, pretrain_workers=1)

    @property
    def fewest_workers(self) -> int:
        """Workers without which no fine-tune begins."""
        return self.min_workers or self.num_workers

    @property
    def uses_gpu(self) -> bool:
        """Whether workers train on GPUs."""
        return self.gpus_per_worker > 0
