"""The driver, `proser sweep` itself, ends in mid-sweep: killed, or by Ctrl-C."""

import time

from lab import Lab
from losses import Loss
from sweeps import require

LATEST = 2.0  # seconds after an epoch, at most, at which the driver is killed


def killed(lab: Lab) -> Loss:
    """The driver is killed with `kill -9` at random moments, and the same command continues."""
    undisturbed, draws = lab.undisturbed(), lab.draws("driver")
    total = sum(undisturbed.epochs.values())
    moments = [(epoch, draws.uniform(0, LATEST)) for epoch in sorted(draws.sample(range(total), 2 if lab.quick else 5))]
    print("  kills", ", ".join(f"{wait:.2f} s after epoch {epoch} of {total}" for epoch, wait in moments), flush=True)
    with lab.sweep() as sweep:
        for epoch, wait in moments:
            sweep.begin()
            sweep.until_epochs(epoch)
            time.sleep(wait)
            sweep.strike(sweep.diary.in_progress())
            sweep.kill()
        sweep.begin()
        sweep.ended(0)
        sweep.until_gone()
    return Loss.of("driver killed with `kill -9`, at random", sweep, undisturbed)


def interrupted(lab: Lab) -> Loss:
    """Ctrl-C in the pretraining and in mid-sweep; the same command continues."""
    undisturbed = lab.undisturbed()
    with lab.sweep() as sweep:
        for epoch in (1, sum(undisturbed.epochs.values()) // 2):
            sweep.begin()
            sweep.until_epochs(epoch)
            sweep.strike(sweep.diary.in_progress())
            sweep.interrupt()
            sweep.ended(130)
            said = sweep.complained().strip()
            require(said == "proser: interrupted; the same command continues from the last finished epoch", said)
            sweep.until_gone()
        sweep.begin()
        sweep.ended(0)
        sweep.until_gone()
    return Loss.of("Ctrl-C", sweep, undisturbed)
