"""Where the faults are made to happen: a folder for each sweep, and the sweeps that nothing disturbs."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from losses import Outcome
from sweeps import FOUR, Sweep


class SkippedError(Exception):
    """This machine cannot have this fault."""


@dataclass
class Lab:
    """`quick` strikes less often, and for less long; equal seeds strike after equal epochs."""

    root: Path
    quick: bool
    seed: int
    _undisturbed: dict[tuple[str, ...], Outcome] = field(default_factory=dict)
    _folders: int = 0

    def draws(self, fault: str) -> random.Random:
        """Random numbers of one fault, the same whichever others run."""
        return random.Random(f"{self.seed} {fault}")

    @contextmanager
    def sweep(self, options: Sequence[str] = (), **more: Any) -> Iterator[Sweep]:
        """A sweep in a folder of its own, whose diary is kept; read it once the block has ended."""
        self._folders += 1
        with Sweep(self.root / str(self._folders), options, **more).watched() as sweep:
            yield sweep

    def undisturbed(self, options: Sequence[str] = (), space: str = FOUR) -> Outcome:
        """The outcome of a sweep that nothing disturbs; made once."""
        key = (space, *options)
        if key not in self._undisturbed:
            with self.sweep(options, space=space) as sweep:
                sweep.begin()
                sweep.ended(0)
            made = self._undisturbed[key] = Outcome.of(sweep)
            print(f"  undisturbed: {sum(made.epochs.values())} epochs in {made.seconds:.0f} s", flush=True)
        return self._undisturbed[key]
