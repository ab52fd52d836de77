"""Exponential moving average of the weights (Polyak averaging)."""

import torch
from torch import Tensor, nn


class WeightAverage:
    """Moving average of a module's weights and float buffers; a decay of 0 does nothing."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._decay = decay
        values = module.state_dict() if decay else {}
        self._live = {name: value for name, value in values.items() if value.is_floating_point()}
        self._averaged = {name: value.clone() for name, value in self._live.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Move the average towards the live weights by 1 - decay."""
        if self._live:
            torch._foreach_lerp_(list(self._averaged.values()), list(self._live.values()), 1.0 - self._decay)

    @torch.no_grad()
    def apply(self) -> None:
        """Put the averaged weights in the place of the live ones."""
        for name, value in self._averaged.items():
            self._live[name].copy_(value)

    def state(self) -> dict[str, Tensor]:
        """The averaged values by name."""
        return self._averaged

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Inverse of `state`."""
        for name, value in state.items():
            self._averaged[name].copy_(value)
