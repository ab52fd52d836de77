"""What one request may ask for. Larger requests are refused before anything is decoded or waits for a batch."""

import math
from dataclasses import dataclass

from proser_core.errors import ConfigError

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Limits:
    """Limits of one request. Raises ConfigError for a limit that lets nothing in."""

    max_images: int = 64
    """Images of one request, and the largest batch of the network."""
    max_megabytes: float = 16.0
    """Size of one request, in 10^6 bytes."""
    max_megapixels: float = 50.0
    """Total size of the images of one request, in 10^6 pixels."""
    max_seconds: float = 30.0
    """Seconds within which the body of a request must arrive; a slower one gets a 408. Without replicas, its head must
    arrive, and its answer be read, within the same time."""

    def __post_init__(self) -> None:
        if self.max_images < 1:
            raise ConfigError(f"--max-images got {self.max_images}; need 1 or more")
        for name in ("max_megabytes", "max_megapixels", "max_seconds"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"--{name.replace('_', '-')} got {value}; need a number above 0")

    @property
    def max_bytes(self) -> int:
        """Largest body of a request."""
        return int(self.max_megabytes * MEGABYTE)

    @property
    def max_pixels(self) -> int:
        """Most pixels of all images of a request, before they are resized."""
        return int(self.max_megapixels * MEGABYTE)
