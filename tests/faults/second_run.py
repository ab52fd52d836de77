"""A second run in the same storage."""

from lab import Lab
from losses import Loss
from sweeps import require


def refused(lab: Lab) -> Loss:
    """A second run on the same storage is told who is first, who does not notice."""
    undisturbed = lab.undisturbed()
    with lab.sweep() as first:
        first.begin()
        first.until_epochs(sum(undisturbed.epochs.values()) // 2)
        with lab.sweep(storage=first.storage) as second:
            second.begin()
            first.strike([])
            second.ended(2)
            said = second.complained()
            told = f"another run works in {first.storage}" in said and f"process {first.process.pid} on" in said
            require(told, f"the second run is not told who is first: {said}")
        require(first.process.poll() is None, "the first run ended before the second one was refused")
        first.ended(0)
        first.until_gone()
    return Loss.of("a second run on the same storage", first, undisturbed)
