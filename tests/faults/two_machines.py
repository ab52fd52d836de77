"""Two drivers on two machines, which share nothing but a storage behind a URI and an MLflow."""

import os
import signal
import time

from lab import Lab
from losses import Loss
from sweeps import require

from pipelines.storage.lease import EXPIRES_AFTER_S
from pipelines.storage.mirror import MIRROR_VARIABLE

AGAIN_S = 10  # between two tries of the second machine


def lease(lab: Lab) -> Loss:
    """The second is refused while the first one lives. The first machine dies, its lock expires, the second goes on."""
    undisturbed = lab.undisturbed()
    storage = lab.root / "of_two_machines"
    more = {"storage": storage, "uri": storage.as_uri()}
    with lab.sweep(environment=_machine(lab, "first"), **more) as first:
        first.begin()
        first.until_epochs(sum(undisturbed.epochs.values()) // 3)
        environment = {**_machine(lab, "second"), "MLFLOW_TRACKING_URI": first.tracking_uri}
        with lab.sweep(environment=environment, **more) as second:
            second.begin()
            second.ended(2)
            told = f"process {first.process.pid} on" in second.complained()
            require(told, f"the second is not told who is first: {second.complained()}")
            first.strike(first.diary.unfinished())
            for process in first.processes():
                os.kill(process.pid, signal.SIGKILL)
            died = time.monotonic()
            while True:
                second.begin()
                second.process.wait()
                if second.process.returncode != 2:
                    break
                waited = time.monotonic() - died
                require(waited < 2 * EXPIRES_AFTER_S, f"still refused after {waited:.0f} s: {second.complained()}")
                time.sleep(AGAIN_S)
            second.ended(0)
            second.until_gone()
        first.ended(-signal.SIGKILL)
    return Loss.of("two machines, the first killed", first, undisturbed)


def _machine(lab: Lab, name: str) -> dict[str, str]:
    home = lab.root / f"home_of_the_{name}"
    home.mkdir()
    return {"HOME": str(home), MIRROR_VARIABLE: str(home / "mirror")}
