"""The model that a replica serves, and how it follows its alias."""

import threading
from dataclasses import dataclass

import numpy as np

from pipelines.tracking.models import Model, find, load
from pipelines.tracking.registry import Version
from pipelines.tracking.server import connect
from proser_core.errors import ProserError, first_line
from proser_core.recognition.open_set_classifier import OpenSetClassifier

BACKOFF_FACTOR = 10  # by which the pause grows after a poll that failed


@dataclass(frozen=True)
class ServedVersion:
    """A classifier that is ready, and its names; `version` is empty for a folder."""

    title: str
    version: str
    classifier: OpenSetClassifier


class ServedModel:
    """`current` answers requests; it changes as a whole, between two requests.

    Raises as `load` does where there is no model at the start. After that, whatever fails is `problem`, and the current
    version stays.
    """

    def __init__(self, uri: str, device: str) -> None:
        self._uri, self._device = uri, device
        self.problem = ""
        self._version: Version | None = None
        self.current = self._ready(load(uri))

    @property
    def has_alias(self) -> bool:
        """Whether the URI can mean another version later: an alias, not a number or a folder."""
        return self._uri.startswith("models:") and "@" in self._uri

    def poll(self) -> bool:
        """Load the version that the alias names now; whether it is another one."""
        what = "the registry does not answer"
        try:
            now = find(connect(), self._uri)
            moved = self._version is None or (now.number, now.created) != (self._version.number, self._version.created)
            if moved:
                what = f"version {now.number} cannot be loaded"
                self.current = self._ready(load(self._uri))
        except ProserError as error:
            self.problem = str(error)
        except Exception as error:  # of MLflow's dozen back ends, or of torch: the server must live through them
            self.problem = f"{what} ({first_line(error)})"
        else:
            self.problem = ""
            return moved
        return False

    def follow(self, seconds: float, stop: threading.Event) -> None:
        """Poll every so many seconds until `stop`."""
        while not stop.wait(seconds * (BACKOFF_FACTOR if self.problem else 1)):
            self.poll()

    def _ready(self, model: Model) -> ServedVersion:
        """With one prediction made: the first one takes longer, and shows that the model works here."""
        classifier, size = model.classifier, model.classifier.image_size
        classifier.predict(np.zeros((1, size, size, 3), np.uint8), self._device)
        self._version = model.version
        return ServedVersion(model.title, "" if model.version is None else model.version.number, classifier)
