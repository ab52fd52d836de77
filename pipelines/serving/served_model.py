"""The model that a server holds, and how it follows its alias."""

import threading
from dataclasses import dataclass

import numpy as np

from pipelines.tracking.models import Model, Version, find, load
from pipelines.tracking.server import connect
from proser_core.errors import ProserError, first_line
from proser_core.recognition.open_set_classifier import OpenSetClassifier

PATIENCE = 10  # times the usual pause, after a look that failed


@dataclass(frozen=True)
class Held:
    """A classifier that is ready, and its names; `version` is empty for a folder."""

    title: str
    version: str
    classifier: OpenSetClassifier


class HeldModel:
    """`current` is what a request is answered with; it changes as a whole, between two requests.

    Raises as `load` does where there is no model to begin with. After that, whatever goes wrong is `problem`, and the
    model that there is goes on.
    """

    def __init__(self, uri: str, device: str) -> None:
        self._uri, self._device = uri, device
        self.problem = ""
        self._version: Version | None = None
        self.current = self._take(load(uri))

    @property
    def moves(self) -> bool:
        """Whether another version may come to be meant: by an alias, not by a number or a folder."""
        return self._uri.startswith("models:") and "@" in self._uri

    def look(self) -> bool:
        """Take the version that the alias names now; whether it is another one."""
        what = "the registry cannot be asked"
        try:
            now = find(connect(), self._uri)
            moved = self._version is None or (now.number, now.created) != (self._version.number, self._version.created)
            if moved:
                what = f"version {now.number} cannot be taken"
                self.current = self._take(load(self._uri))
        except ProserError as error:
            self.problem = str(error)
        except Exception as error:  # of MLflow's dozen back ends, or of torch: the server must live through them
            self.problem = f"{what} ({first_line(error)})"
        else:
            self.problem = ""
            return moved
        return False

    def follow(self, seconds: float, stop: threading.Event) -> None:
        """Look every so many seconds until `stop`."""
        while not stop.wait(seconds * (PATIENCE if self.problem else 1)):
            self.look()

    def _take(self, model: Model) -> Held:
        """With one prediction made: the first one costs more, and shows that the model works here."""
        classifier, size = model.classifier, model.classifier.image_size
        classifier.predict(np.zeros((1, size, size, 3), np.uint8), self._device)
        self._version = model.version
        return Held(model.title, "" if model.version is None else model.version.number, classifier)
