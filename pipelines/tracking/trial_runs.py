"""The MLflow run of one trial, and metrics in as few requests as hold them."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag

from pipelines.tracking import views
from pipelines.tracking.server import NOTE
from proser_core.config.named_finetunes import PLACEHOLDER_FIELDS
from proser_core.titles import SHORT

SPACES = "proser.spaces"  # those that have the trial, to filter by: tags.`proser.spaces` LIKE '%trade_off%'
BATCH = 900  # MLflow takes at most 1,000 metrics at a time
STATUSES = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}  # of a run, by that of a trial


class ChildRun:
    """The MLflow run of one trial, as far as it was logged when it was read."""

    def __init__(self, client: MlflowClient, run: Run) -> None:
        self._client, self.run_id, self._status = client, str(run.info.run_id), run.info.status
        self._started, self._is_selected = run.info.start_time, views.SELECTED in run.data.tags
        self._logged = run.data.metrics
        self._logged_epochs = int(self._logged.get("epoch", -1)) + 1
        self._has_params = bool(run.data.params)
        self._reason = run.data.tags.get(NOTE, "")

    @property
    def ended(self) -> bool:
        """Whether the trial has finished, with all that there is to log."""
        return self._status == "FINISHED"

    @property
    def is_running(self) -> bool:
        """Whether the trial is in progress, or was as its command was killed."""
        return self._status == "RUNNING"

    def lacks(self, epochs: list[dict[str, float]]) -> bool:
        """Whether there are epochs that are not logged yet."""
        return len(epochs) > self._logged_epochs

    def shows(self, row: dict[str, Any], epochs: list[dict[str, float]]) -> bool:
        """Whether all of a trial that has not finished is logged."""
        outcome = (STATUSES[row["status"]], row.get("reason", ""))
        lacking = missing({**views.point_metrics(row["params"]), **row["metrics"]}, self._logged)
        logged = self._has_params and not (self.lacks(epochs) or lacking)
        return logged and outcome == (self._status, self._reason)

    def log(
        self,
        params: dict[str, Any],
        epochs: list[dict[str, float]],
        metrics: Mapping[str, float] | None = None,
        spaces: Sequence[str] = (),
    ) -> None:
        """Log what is not logged yet; a run that was cut off goes on.

        Numeric fields and final metrics stand at step 0: the UI draws bars of what has no later step. Their time is the
        start of the run, by which MLflow knows them again where they are linked to a model; a metric in the place of
        another value, as where a stopped trial went on, is later.
        All of it goes in one request where it fits: a sweep may have thousands of trials, and each request is a few
        transactions.
        """
        fresh = epochs[self._logged_epochs :]
        if fresh:
            self._resume()
        final = missing({**views.point_metrics(params), **(metrics or {})}, self._logged)
        first = {name: value for name, value in final.items() if name not in self._logged}
        later = {name: value for name, value in final.items() if name in self._logged}
        groups = [*map(metric_list, fresh), metric_list(first, time_ms=self._started)]
        if later:
            groups.append(replacing(later, self._client.get_run(self.run_id)))
        words = [] if self._has_params else param_list(that_matter(params))
        tags = [RunTag(SPACES, ", ".join(spaces))] if spaces else []
        for batch in batches(groups, always=bool(words or tags)):
            self._client.log_batch(self.run_id, metrics=batch, params=words, tags=tags)
            words, tags = [], []
        self._has_params = True
        self._logged |= final
        if fresh:
            self._logged_epochs = int(fresh[-1]["epoch"]) + 1

    def select(self, is_selected: bool) -> None:
        """Tag the trial as the selected one, or take the tag away."""
        if is_selected and not self._is_selected:
            self._client.set_tag(self.run_id, views.SELECTED, "yes")
        elif self._is_selected and not is_selected:
            self._client.delete_tag(self.run_id, views.SELECTED)
        self._is_selected = is_selected

    def _resume(self) -> None:
        """Mark a trial that goes on as running, without the reason why it had ended."""
        if not (self.is_running or self.ended):
            self._explain("")
            self._client.update_run(self.run_id, status="RUNNING")
            self._status = "RUNNING"

    def end(self, status: str, reason: str = "") -> None:
        """Mark the trial as ended; the reason of one that has not finished stands where the UI shows it."""
        self._explain(reason)
        self._client.set_terminated(self.run_id, status)
        self._status = status

    def _explain(self, reason: str) -> None:
        if reason:
            self._client.set_tag(self.run_id, NOTE, reason)
        elif self._reason:
            self._client.delete_tag(self.run_id, NOTE)
        self._reason = reason


def that_matter(params: dict[str, Any]) -> dict[str, Any]:
    """A trial's parameters that its training reads, each under one name, which is the SHORT one where it has that."""
    unread = {*SHORT}
    if params.get("objective") == "cross_entropy":
        unread |= {*PLACEHOLDER_FIELDS, *SHORT.values()}
    if params.get("schedule") != "cosine_restarts":
        unread.add("restarts")
    return {name: value for name, value in params.items() if name not in unread}


def param_list(values: dict[str, Any]) -> list[Param]:
    """Values as MLflow's parameters."""
    return [Param(name, str(value)) for name, value in values.items()]


def metric_list(values: Mapping[str, float], prefix: str = "", time_ms: int = 0) -> list[Metric]:
    """Values of an epoch, or of none: these are at step 0. Their time is now, if none is given. A learning rate has the
    digits that single precision has, in which it was computed."""
    step, when = int(values.get("epoch", 0)), time_ms or int(time.time() * 1000)
    exact = {name: float(f"{value:.6g}") if name == "train/lr" else float(value) for name, value in values.items()}
    return [Metric(f"{prefix}{name}", value, when, step) for name, value in exact.items()]


def replacing(values: Mapping[str, float], run: Run) -> list[Metric]:
    """Values at step 0, later than those that the run has, whose machine's clock may be ahead: of equal steps MLflow
    shows the latest, and of equal times the largest."""
    times = [metric.timestamp + 1 for metric in run.data.to_proto().metrics if metric.key in values]
    return metric_list(values, time_ms=max([int(time.time() * 1000), *times]))


def missing(metrics: Mapping[str, float], logged: Mapping[str, float]) -> dict[str, float]:
    """What a crash between two requests has not logged yet."""
    return {name: value for name, value in metrics.items() if logged.get(name) != value}


def batches(groups: Iterable[list[Metric]], *, always: bool = False) -> Iterator[list[Metric]]:
    """Metrics of several groups in as few requests as hold them; with `always`, one at least. What a request holds
    arrives whole, so that an epoch is in one request: from its metric `epoch` follows that the others are there."""
    batch: list[Metric] = []
    for group in groups:
        for start in range(0, len(group), BATCH):
            part = group[start : start + BATCH]
            if len(batch) + len(part) > BATCH:
                yield batch
                batch = []
            batch = batch + part
    if batch or always:
        yield batch
