"""What every benchmark gets: sizes, device, and where real images lie."""

from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Settings:
    """`quick` shrinks everything until it only shows that the benchmarks run."""

    quick: bool = False
    device: str = "cpu"
    data_dir: Path | None = None

    @property
    def rounds(self) -> int:
        """How often every variant is timed."""
        return 2 if self.quick else 7

    @property
    def sample_seconds(self) -> float:
        """Shortest duration of one sample; what is faster is called several times."""
        return 0.01 if self.quick else 0.3

    @property
    def batch_size(self) -> int:
        """Images in one batch; the paper's is 128."""
        return 16 if self.quick else 128

    @property
    def image_size(self) -> int:
        """Pixels of a side."""
        return 8 if self.quick else 32

    @property
    def thread_counts(self) -> tuple[int, ...]:
        """Numbers of threads to measure with."""
        return (1,) if self.quick or self.device != "cpu" else (1, 2)

    @property
    def torch_device(self) -> torch.device:
        """The device as torch's object."""
        return torch.device(self.device)
