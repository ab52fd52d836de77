"""MLflow runs: one parent for a pipeline run, one child for a trial, fed from files on disk.

Everything is looked up by tag before it is made, and only what is not there yet is logged, so that calling anything
twice changes nothing. A request that failed may have arrived: what the server has is read again after it.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import DatasetInput, Run, RunTag

from pipelines.output_files import RESULTS
from pipelines.tracking import server, views
from pipelines.tracking.origins import create_run
from pipelines.tracking.trial_runs import STATUSES, ChildRun, batches, metric_list, missing, param_list, replacing
from proser_core.config import FinetuneConfig, to_json
from proser_core.data.splits.class_split import Setting
from proser_core.store.store import MANIFEST, Artefact
from proser_core.titles import SHORT

PARENT_TAG = "mlflow.parentRunId"
RUN_KEY, TRIAL_KEY, REPORTED = (f"mlflow.proser.{name}" for name in ("run_key", "trial_key", "reported"))
"""Tags that only this code reads: the UI hides what begins with `mlflow.`."""
KEPT = re.compile(r"(.*/)?(auroc|macro_f1|closed_set_accuracy|balanced_accuracy|known_rate|calibration/bias|seconds)")
"""Metrics of a parent; evaluation.json and results.csv have all."""
PROXY, PROXY_OF = "proser.proxy", "proser.proxy_of"
"""Tags of a run that knows every class and of its proxy: each has the other's id."""
LONGEST_TAG = 8000  # characters; MLflow cuts what is longer in mid-word


def fitting(text: str, room: int, file: str) -> str:
    """As many whole sections of Markdown as there is room for, and that the rest is in `file`."""
    if len(text) <= room:
        return text
    rest = f"\n\nThe other sections are in {file}, among the artifacts.\n"
    kept = text[: room - len(rest)]
    return kept[: max(kept.rfind("\n## "), 0) or None].rstrip() + rest


def find_tagged(client: MlflowClient, experiment_id: str, tags: Mapping[str, str]) -> Run | None:
    """The run with these tags, as of a parent and a TRIAL_KEY; None where there is none."""
    query = " and ".join(f"tags.`{name}` = {server.quoted(value)}" for name, value in tags.items())
    return next(iter(client.search_runs([experiment_id], query, max_results=1)), None)


@contextmanager
def run_of_its_own(client: MlflowClient, title: str, tags: dict[str, str] | None = None) -> Iterator[str]:
    """A run for one piece of work, which is the block: created on entering it, or resumed where its tags have a
    TRIAL_KEY and a run has them; finished at the end, failed where the block raises."""
    experiment_id, tags = server.experiment_id(client), tags or {}
    found = find_tagged(client, experiment_id, tags) if TRIAL_KEY in tags else None
    run = found
    try:
        run = found or create_run(client, experiment_id, title, tags)
        if found:
            client.update_run(found.info.run_id, status="RUNNING")
        yield str(run.info.run_id)
    except BaseException:
        with suppress(Exception):  # the error itself matters more than the status
            if run is not None:
                client.set_terminated(run.info.run_id, "FAILED")
        raise
    client.set_terminated(run.info.run_id)


@dataclass
class ParentRun:
    """The MLflow run of one pipeline run, and its children. One that has finished is as it was until there is something
    new to log."""

    client: MlflowClient
    experiment_id: str
    run_id: str
    status: str = "RUNNING"
    _children: dict[str, ChildRun] = field(default_factory=dict)
    _logged: dict[str, int] = field(default_factory=dict)
    _data_sets: set[str] = field(default_factory=set)
    _doubtful: bool = False
    _is_explained: bool = False
    """Whether its description is the reason why it ended."""

    @classmethod
    def open(cls, name: str, run_key: str, params: dict[str, Any]) -> "ParentRun":
        """The run with this key: reopened if it exists, else created, and ended where something comes in between."""
        client = server.connect(creates=True)
        experiment_id, tags = server.experiment_id(client), {RUN_KEY: run_key}
        found = find_tagged(client, experiment_id, tags)
        try:
            return cls._opened(client, found or create_run(client, experiment_id, name, tags), params)
        except BaseException:
            with suppress(Exception):
                if not found and (made := find_tagged(client, experiment_id, tags)):  # its answer may have been lost
                    client.set_terminated(made.info.run_id, "KILLED")
            raise

    @classmethod
    def _opened(cls, client: MlflowClient, run: Run, params: dict[str, Any]) -> "ParentRun":
        if params.keys() - run.data.params.keys():  # also where a crash came in between
            client.log_batch(run.info.run_id, params=param_list(params))
        parent = cls(client, run.info.experiment_id, run.info.run_id, run.info.status)
        parent._data_sets = {each.dataset.digest for each in (run.inputs.dataset_inputs if run.inputs else ())}
        parent._is_explained = run.data.tags.get(REPORTED) == ""
        parent._read_children()
        return parent

    def _read_children(self) -> None:
        query = f"tags.`{PARENT_TAG}` = '{self.run_id}' and tags.`{TRIAL_KEY}` != ''"  # others may log runs below ours
        runs = server.all_pages(self.client.search_runs, [self.experiment_id], query)
        self._children = {run.data.tags[TRIAL_KEY]: ChildRun(self.client, run) for run in runs}

    @contextmanager
    def _certain(self) -> Iterator[None]:
        """Act on what the server has: it is read again where an earlier request failed."""
        if self._doubtful:
            self._logged.clear()
            self._read_children()
        self._doubtful = True
        yield
        self._doubtful = False

    def _child(self, trial_key: str, name: str) -> ChildRun:
        """The run of a trial: found by its key, else created."""
        if trial_key not in self._children:
            self._resume()
            tags = {PARENT_TAG: self.run_id, TRIAL_KEY: trial_key}
            run = create_run(self.client, self.experiment_id, name, tags)
            self._children[trial_key] = ChildRun(self.client, run)
        return self._children[trial_key]

    def log_data_sets(self, inputs: Sequence[DatasetInput]) -> None:
        """Log the images that are trained on and tested with, once."""
        new = [each for each in inputs if each.dataset.digest not in self._data_sets]
        if new:
            self.client.log_inputs(self.run_id, datasets=new)
            self._data_sets |= {each.dataset.digest for each in new}

    def select(self, keys: Collection[str]) -> None:
        """Tag the trials that development data selected, and no other ones."""
        with self._certain():
            for key, child in self._children.items():
                child.select(key in keys)

    def child_id(self, trial_key: str) -> str:
        """The run of a trial that was tracked."""
        return self._children[trial_key].run_id

    def save_view(
        self, name: str, finetunes: Sequence[FinetuneConfig], settings: Sequence[Setting], num_splits: int = 1
    ) -> None:
        """Save the UI's view of these trials on so many class splits, with the fields that vary as columns. Its title
        has the start of the run, because views of equal names are listed one below the other."""
        started = datetime.fromtimestamp(self.client.get_run(self.run_id).info.start_time / 1000)
        title = f"{name}, {started:%Y-%m-%d %H:%M}"
        points = [to_json(tuned) for tuned in finetunes if tuned.objective == "proser"]
        varied = [each.name for each in fields(FinetuneConfig) if len({point[each.name] for point in points}) > 1]
        columns = [*(SHORT.get(name, name) for name in varied), *["split_index"] * (num_splits > 1)]
        views.save_sweep_view(self.client, self.experiment_id, self.run_id, title, columns, settings)

    def join_proxy(self, run_id: str) -> None:
        """Tag this run with its proxy's, and that one with this."""
        self.client.set_tag(self.run_id, PROXY, run_id)
        self.client.set_tag(run_id, PROXY_OF, self.run_id)

    def link(self) -> str:
        """Where that view opens, without a password; with a local database, once `proser ui` serves it."""
        uri = server.shown_uri()
        return views.runs_link(uri if uri.startswith("http") else server.LOCAL_UI, self.experiment_id, self.run_id)

    def curve(self, prefix: str, epochs: list[dict[str, float]]) -> None:
        """Log the epochs of a training curve, under `prefix/...`, that are not logged yet."""
        counter = f"{prefix}/epoch"
        with self._certain():
            if counter not in self._logged:
                self._logged[counter] = int(self.client.get_run(self.run_id).data.metrics.get(counter, -1)) + 1
            for row in epochs[self._logged[counter] :]:
                self._resume()
                self.client.log_batch(self.run_id, metrics=metric_list(row, f"{prefix}/"))
                self._logged[counter] = int(row["epoch"]) + 1

    def track_epochs(self, key: str, name: str, params: dict[str, Any], epochs: list[dict[str, float]]) -> None:
        """Log the epochs of a trial in progress that are not logged yet."""
        with self._certain():
            child = self._child(key, name)
            if child.lacks(epochs):
                self._resume()
                child.log(params, epochs)

    def track_trial(self, row: dict[str, Any], epochs: list[dict[str, float]]) -> None:
        """Update a trial's run from its row of the sweep, unless it has finished."""
        with self._certain():
            child = self._child(row["key"], row["name"])
            if child.ended or child.shows(row, epochs):
                return
            self._resume()
            child.log(row["params"], epochs, row["metrics"], row.get("spaces", []))
            child.end(STATUSES[row["status"]], row.get("reason", ""))

    def results(self, report: Artefact, evaluation: dict[str, Any]) -> None:
        """The metrics of the network that becomes the model, the others' under their names, and the report's files,
        once."""
        metrics: dict[str, float] = {}
        for name, method in evaluation["methods"].items():
            prefix = "" if name == evaluation["method"] else f"controls/{slug(name)}/"
            metrics |= {prefix + metric: value for metric, value in method.items()}
        self.report(report, metrics, {views.SELECTED: evaluation["selected"]["name"]})
        self.select([evaluation["selected"]["key"]])

    def swept(self, report: Artefact, best: Sequence[dict[str, Any]]) -> None:
        """The report's files, once, and the trials of the best point; none where no trial has finished."""
        self.report(report, tags={views.SELECTED: best[0]["name"]} if best else {})
        self.select([row["key"] for row in best])

    def report(
        self, report: Artefact, metrics: Mapping[str, float] | None = None, tags: Mapping[str, str] | None = None
    ) -> None:
        """Log those of the metrics that are KEPT, tags, the report's files, and its results.md as the run's
        description, once. A run that has finished stays so, whatever interrupts this."""
        logged = self.client.get_run(self.run_id)
        if logged.data.tags.get(REPORTED) == report.digest:
            return
        kept = {name: value for name, value in (metrics or {}).items() if KEPT.fullmatch(name)}
        note = fitting((report.path / RESULTS).read_text(encoding="utf-8"), LONGEST_TAG, RESULTS)
        described = [RunTag(name, value) for name, value in {**(tags or {}), server.NOTE: note}.items()]
        for batch in batches([replacing(missing(kept, logged.data.metrics), logged)], always=True):
            self.client.log_batch(self.run_id, metrics=batch, tags=described)
        for path in sorted(report.path.iterdir()):
            if path.is_dir():
                self.client.log_artifacts(self.run_id, str(path), path.name)
            elif path.name != MANIFEST:
                self.client.log_artifact(self.run_id, str(path))
        self.client.set_tag(self.run_id, REPORTED, report.digest)

    def start(self) -> None:
        """Mark the run as running, unless it has finished."""
        if self.status != "FINISHED":
            self._resume()

    def _resume(self) -> None:
        if self._is_explained:
            self.client.set_tag(self.run_id, server.NOTE, "")
            self._is_explained = False
        if self.status != "RUNNING":
            self.client.update_run(self.run_id, status="RUNNING")
            self.status = "RUNNING"

    def end(self, status: str, reason: str = "") -> None:
        """End as FINISHED, FAILED or KILLED; a reason is the run's description until it resumes. Trials that were cut
        off are marked as killed until they resume."""
        # a command that has lost the storage, and does not know it yet, may have ended the run
        self.status = self.client.get_run(self.run_id).info.status
        if self.status == "FINISHED":
            return
        if status != "FINISHED":
            if self._doubtful:  # the answer to a trial's creation may have been lost
                self._read_children()
            for child in self._children.values():
                if child.is_running:
                    child.end("KILLED")
        if reason:  # instead of a report, which is logged again
            self.client.log_batch(self.run_id, tags=[RunTag(server.NOTE, reason), RunTag(REPORTED, "")])
            self._is_explained = True
        self.client.set_terminated(self.run_id, status)
        self.status = status


def slug(name: str) -> str:
    """A name as part of a metric's, which MLflow allows no comma or bracket."""
    return re.sub("[^a-z0-9]+", "_", name.lower()).strip("_")
