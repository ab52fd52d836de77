"""A disk changes one bit of a file, and says nothing."""

import time
from pathlib import Path

from lab import Lab
from losses import Loss
from sweeps import Sweep, require

from proser_core.jobs.spec import PRETRAIN, STATE, TRIALS, WEIGHTS
from proser_core.store.store import MANIFEST


def in_a_checkpoint(lab: Lab) -> Loss:
    """A bit of a checkpoint changes while no sweep runs; the same command names it and begins that training again."""
    undisturbed = lab.undisturbed()
    with lab.sweep() as sweep:
        sweep.begin()
        sweep.until(lambda: bool(_checkpoints(sweep)), "a checkpoint of a trial")
        struck = sweep.diary.in_progress()
        sweep.kill()
        while sweep.diary.in_progress():  # its workers live a moment longer
            time.sleep(0.1)
        file = _checkpoints(sweep)[0]
        damaged = file.parent.relative_to(sweep.storage).as_posix()
        sweep.strike([*struck, damaged])
        _flip(file)
        sweep.begin()
        sweep.ended(0)
        require(f"{file} was changed after it was written" in sweep.complained(), "the checkpoint is not named")
        sweep.until_gone()
    return Loss.of("a bit flipped in a checkpoint", sweep, undisturbed, damaged=[damaged])


def in_finished_weights(lab: Lab) -> Loss:
    """A bit of the pretrained weights and of a finished trial's changes; both are named or found, and trained again."""
    undisturbed = lab.undisturbed()
    with lab.sweep() as sweep:
        sweep.begin()
        sweep.until(lambda: bool(_finished(sweep, TRIALS)), "a finished trial")
        damaged = [_finished(sweep, PRETRAIN)[0], _finished(sweep, TRIALS)[0]]
        sweep.strike([*sweep.diary.in_progress(), *damaged])
        for name in damaged:
            _flip(sweep.storage / name / WEIGHTS)
        said = sweep.ended(1) + sweep.complained()  # there where no trial with placeholders had finished before
        require(f"{damaged[0]}/{WEIGHTS} was changed after it was trained" in said, f"not named: {said[-600:]}")
        sweep.begin()
        sweep.ended(0)
        sweep.until_gone()
    return Loss.of("a bit flipped in finished weights", sweep, undisturbed, damaged=damaged)


def _checkpoints(sweep: Sweep) -> list[Path]:
    return sorted(sweep.storage.glob(f"{TRIALS}/*/{STATE}"))


def _finished(sweep: Sweep, stage: str) -> list[str]:
    return [path.parent.relative_to(sweep.storage).as_posix() for path in sweep.storage.glob(f"{stage}/*/{MANIFEST}")]


def _flip(path: Path) -> None:
    """One bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
