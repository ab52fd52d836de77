"""The model that a replica serves, and how it follows its alias."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipelines.console import utf8_text
from pipelines.tracking.models import LoadedModel, load
from pipelines.tracking.reasons import reason_of
from pipelines.tracking.server import connect
from pipelines.tracking.versions import find
from proser_core.errors import ProserError
from proser_core.networks.folding import for_inference

BACKOFF_FACTOR = 10  # by which the pause grows after a poll that failed


def name_of(model: LoadedModel) -> str:
    """The name that clients see: the registered one, or that of the folder, without the path that leads there."""
    return utf8_text(Path(model.uri).name) if model.version is None else model.version.name


def title_of(model: LoadedModel) -> str:
    """The title that clients see: the registered name and version, or the name of the folder."""
    return name_of(model) if model.version is None else model.title


class ServedModel:
    """`current` answers requests; it changes as a whole, between two requests, and `serves` is called. Raises as `load`
    does where there is no model at the start. After that, whatever fails is `problem`, in `brief` without the paths in
    it, and the current version stays."""

    def __init__(self, uri: str, device: str, serves: Callable[[LoadedModel], None] = lambda model: None) -> None:
        self._uri, self._device, self._serves = uri, device, serves
        self.problem = self.brief = ""
        self.current = self._load()

    @property
    def has_alias(self) -> bool:
        """Whether the URI can mean another version later: an alias, not a number or a folder."""
        return self._uri.startswith("models:") and "@" in self._uri

    def poll(self) -> None:
        """Load the version that the alias names now, where it is another one."""
        what = "the registry does not answer, or the alias is gone"
        try:
            now, served = find(connect(), self._uri), self.current.version
            if served is None or (now.number, now.created) != (served.number, served.created):
                what = f"version {now.number} cannot be loaded"
                self.current = self._load()
        except ProserError as error:
            self.problem, self.brief = str(error), what
        except Exception as error:  # of MLflow's dozen back ends, or of torch: the server must live through them
            self.problem, self.brief = f"{what} ({reason_of(error)})", what
        else:
            self.problem = self.brief = ""

    def follow(self, seconds: float, stop: threading.Event) -> None:
        """Poll every so many seconds until `stop`; any other end is a problem."""
        try:
            while not stop.wait(seconds * (BACKOFF_FACTOR if self.problem else 1)):
                self.poll()
        finally:
            if not stop.is_set():
                self.problem = self.brief = "the alias is not followed any more; start the server again"

    def _load(self) -> LoadedModel:
        """With one prediction made: the first one takes longer, and shows that the model works here."""
        model = load(self._uri)
        model = replace(
            model, classifier=replace(model.classifier, net=for_inference(model.classifier.net, self._device))
        )
        size = model.classifier.image_size
        model.classifier.predict(np.zeros((1, size, size, 3), np.uint8), self._device)
        self._serves(model)
        return model
