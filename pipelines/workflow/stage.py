"""Stages of the workflow: which code each one runs, and nodes that build their own keys.

A node names its inputs as arguments; what it was made from is read off them, so that no input can be forgotten.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from pipelines.storage.storage import Storage
from proser_core.config import Recipe, decisive_fields
from proser_core.data import photos
from proser_core.data.readers import parquet
from proser_core.jobs.further_development import FURTHER, READING
from proser_core.jobs.network_tables import COMPUTING, TABLES
from proser_core.jobs.preparing import ENCODED, PHOTOS, PREPARING
from proser_core.jobs.spec import EMBEDDING, EMBEDDINGS, PREPARE, PRETRAIN, TRIALS
from proser_core.jobs.trials import WORKER
from proser_core.store.code_version import code_version
from proser_core.store.store import Artefact, BuildResult

STAGES = {
    ENCODED: parquet.__name__,
    PHOTOS: photos.__name__,
    PREPARE: PREPARING,
    EMBEDDINGS: EMBEDDING,
    PRETRAIN: WORKER,
    TRIALS: WORKER,
    "sweep": "pipelines.workflow.stages.trial_rows",
    TABLES: COMPUTING,
    FURTHER: READING,
    "evaluate": "pipelines.workflow.stages.evaluate",
    "report": "pipelines.workflow.stages.report",
    "sweep_report": "pipelines.workflow.stages.report",
    "compare": "pipelines.reproduction.comparing",
    "classifiers": "pipelines.reproduction.classifiers",
    "reproduction": "pipelines.reproduction.report",
    "figures": "pipelines.reproduction.paper_figures.stage",
    "figures_page": "pipelines.reproduction.paper_figures.page",
}
"""Folders of a storage, and the module whose code stands in the keys of their artefacts."""
SURROUNDINGS = ("session", "max_seconds", "data_dir")
"""Arguments that decide nothing: where a stage works, and how long it may take; what it leaves out then is not
complete."""


def stage_code(stage: str) -> str:
    """The code version that stands in the keys of a stage's artefacts."""
    return code_version(STAGES[stage])


def stage(name: str) -> Callable[[Callable[..., BuildResult | None]], Callable[..., Artefact]]:
    """Make `build(..., folder)` a node: it takes `store` too, and gives the artefact, found by its inputs or built."""

    def decorate(build: Callable[..., BuildResult | None]) -> Callable[..., Artefact]:
        parameters = dict(inspect.signature(build).parameters)
        del parameters["folder"]
        takes_store = "store" in parameters
        parameters.setdefault("store", inspect.Parameter("store", inspect.Parameter.POSITIONAL_OR_KEYWORD))

        @functools.wraps(build)
        def node(store: Storage, **given: Any) -> Artefact:
            inputs = {each: decisive(value) for each, value in given.items() if each not in SURROUNDINGS}
            if takes_store:
                given["store"] = store
            return store.run(name, {**inputs, "code": stage_code(name)}, lambda folder: build(**given, folder=folder))

        node.__signature__ = inspect.Signature(list(parameters.values()), return_annotation=Artefact)  # type: ignore[attr-defined]
        hints = {each: hint for each, hint in build.__annotations__.items() if each != "folder"}
        node.__annotations__ = {**hints, "store": Storage, "return": Artefact}
        return node

    return decorate


def decisive(value: Any) -> Any:
    """What of a node's input decides its outcome, as plain values: content, not place. Raises TypeError for other kinds
    of value."""
    if isinstance(value, Recipe):
        return decisive_fields(value)
    if hasattr(value, "digest"):
        return value.digest
    if isinstance(value, dict):
        return {str(name): decisive(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [decisive(each) for each in value]
    if is_dataclass(value):
        return {field.name: decisive(getattr(value, field.name)) for field in fields(value)}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"a stage has an input of type {type(value).__name__}, which keys know nothing of; add it here")
