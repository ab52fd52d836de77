"""An object store answers 503 for a while, then slowly for a while."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from lab import Lab
from losses import Loss
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from storages import BUCKET, ENVIRONMENT, s3_server
from sweeps import EPOCHS, require

from pipelines.storage.mirror import MIRROR_VARIABLE
from proser_core.store.files import write_atomically

AWAY_S, QUICKLY_S, EACH_S = 45, 20, 2.0  # workers and driver repeat a request for a minute
UNAVAILABLE = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class Store:
    """An S3 server's application that falls ill; `folder` holds a copy of each object that it took."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.answers_503, self.pause_s = folder, False, 0.0
        self.refused = self.delayed = 0
        self._application: Callable[..., Iterable[bytes]] = lambda *_: []

    def before(self, application: Any) -> "Store":
        """Answer in the place of an application."""
        self._application = application
        return self

    def __call__(self, request: dict[str, Any], begin: Callable[..., Any]) -> Iterable[bytes]:
        if self.answers_503:
            self.refused += 1
            begin("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(UNAVAILABLE)))])
            return [UNAVAILABLE]
        if self.pause_s:
            self.delayed += 1
            time.sleep(self.pause_s)
        answer = b"".join(self._application(request, begin))
        method, path = request["REQUEST_METHOD"], request["PATH_INFO"].removeprefix(f"/{BUCKET}/")
        if method in ("PUT", "POST") and path[-1:] != "/" and not Path(path).name.startswith("."):
            self._copy(path)
        if method == "DELETE":
            (self.folder / path).unlink(missing_ok=True)
        return [answer]

    def _copy(self, name: str) -> None:
        """What the server has under this name; nothing of a part of an upload in parts."""
        found = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].get_object(BUCKET, name)
        if found is not None:
            write_atomically(self.folder / name, found.value)


def away(lab: Lab) -> Loss:
    """An object store answers 503 and then slowly, which the sweep outlasts; then it stays away, and the sweep ends."""
    undisturbed = lab.undisturbed()
    mirror = {MIRROR_VARIABLE: str(lab.root / "mirror_of_the_store")}
    store, seconds = Store(lab.root / "objects"), QUICKLY_S if lab.quick else AWAY_S
    total = sum(undisturbed.epochs.values())
    with s3_server(before=store.before) as query:
        more = {"storage": store.folder / "swept", "uri": f"s3://{BUCKET}/swept?{query}"}
        with lab.sweep(environment={**ENVIRONMENT, **mirror}, **more) as sweep:
            sweep.begin()
            sweep.until_epochs(total // 4)
            sweep.strike(sweep.diary.unfinished())
            store.answers_503 = True
            time.sleep(seconds)
            store.answers_503, store.pause_s = False, EACH_S
            time.sleep(seconds)
            store.pause_s = 0.0
            sweep.until_epochs(total - EPOCHS)  # few trainings left: each waits minutes for the store, in four attempts
            sweep.strike(sweep.diary.unfinished())
            store.answers_503 = True
            sweep.ended(1)
            said = sweep.complained().strip()
            advised = "does not answer" in said and "the same command continues once it answers" in said
            require(advised and len(said.splitlines()) == 1, f"not one line with advice: {said}")
            sweep.until_gone()
            store.answers_503 = False
            sweep.begin()
            sweep.ended(0)
            sweep.until_gone()
        print(f"  {store.refused} requests got a 503, {store.delayed} were {EACH_S:g} s late", flush=True)
    return Loss.of(f"object store: {seconds} s of 503, {seconds} s slow, then away", sweep, undisturbed)
