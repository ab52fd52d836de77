"""A saved view of the MLflow UI for each sweep: its trials with the columns, the order and the charts that matter.

The UI keeps saved views as tags of the experiment and lists them under "Views"; a link opens one. MLflow documents the
views but not their format, which was read in its UI of 3.17.2. A UI that does not know it shows the experiment as it
does without a view, and a server that refuses it costs the view alone.
"""

import json
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from pipelines.console import warn
from pipelines.tracking.server import get_or_none, is_outage
from proser_core.data.splits.class_split import Setting, where
from proser_core.errors import first_line
from proser_core.jobs.spec import SELECTION_METRIC

TAG, OWN = "mlflow.sharedViewState.", "proser-"
MAX_VIEWS = 20  # of sweeps, the newest; the UI refuses to save a view where there are 40
POINT = "point/"  # numeric fields of a trial as metrics, because the UI sorts and compares params as text
NUMERIC = ("beta", "gamma", "C", "alpha", "lr")
SELECTED = "proser.selected"  # tag of a trial that development data selected, and of its parent, with its name
MODELS = "attributes.`Models`"  # links to a trial's model and its registered versions
PARAM_WIDTH, METRIC_WIDTH = 90, 130  # pixels
SECTION = "sweep"
WITH_MODELS = "workflowType=machine_learning"  # the UI's mode in which the side bar has models and their registry


def point_metrics(params: dict[str, Any]) -> dict[str, float]:
    """A trial's numeric fields by the names that the UI can sort; none of a control, which has no dummies."""
    if params.get("objective") == "cross_entropy":
        return {}
    return {f"{POINT}{name}": float(params[name]) for name in NUMERIC if name in params}


def runs_link(base_url: str, experiment_id: str, parent_run_id: str = "") -> str:
    """Address of the runs on the server at `base_url`, in the saved view of this run if one is given."""
    view = f"&viewStateShareKey={OWN}{parent_run_id}" if parent_run_id else ""
    return f"{base_url.rstrip('/')}/#/experiments/{experiment_id}/runs?{WITH_MODELS}{view}"


def newest_view(client: MlflowClient, experiment_id: str) -> str:
    """The run whose view was saved last; an empty string where there is none."""
    tags = client.get_experiment(experiment_id).tags
    saved = {name: _time(tags[name], "updatedAt") for name in tags if name.startswith(TAG + OWN)}
    return max(saved, key=lambda name: saved[name]).removeprefix(TAG + OWN) if saved else ""


def save_sweep_view(
    client: MlflowClient,
    experiment_id: str,
    parent_run_id: str,
    name: str,
    fields: Sequence[str],
    settings: Sequence[Setting],
) -> None:
    """Save, or replace, the view of a sweep in which `fields` of the trials' params vary; the oldest ones go."""
    tags = client.get_experiment(experiment_id).tags
    key, now = f"{TAG}{OWN}{parent_run_id}", int(1000 * time.time())
    created = _time(tags[key]) if key in tags else now
    state = json.dumps(view_state(parent_run_id, fields, settings))
    view = {"name": name, "createdAt": created, "updatedAt": now, "state": state}
    others = (tag for tag in tags if tag.startswith(TAG + OWN) and tag != key)
    try:
        client.set_experiment_tag(experiment_id, key, json.dumps(view))
        for tag in sorted(others, key=lambda tag: -_time(tags[tag]))[MAX_VIEWS - 1 :]:
            get_or_none(partial(client.delete_experiment_tag, experiment_id, tag))  # another sweep may have come first
    except MlflowException as error:
        if is_outage(error):
            raise
        warn(f"the view of this sweep is not saved ({first_line(error)}); the MLflow UI shows all runs instead")


def _time(view: str, name: str = "createdAt") -> int:
    """When a view was created or updated, in milliseconds since 1970; 0 where a later UI has written another format."""
    try:
        return int(json.loads(view)[name])
    except (ValueError, KeyError, TypeError):
        return 0


def view_state(parent_run_id: str, fields: Sequence[str], settings: Sequence[Setting]) -> dict[str, Any]:
    """The UI's own description of a page: filter, order, columns, charts. What varies stands next to the names of the
    trials, which are cut where much does, and then what was measured."""
    ends = list(dict.fromkeys((*settings[:1], *settings[-1:])))
    tested = [f"{where(setting)}/{metric}" for setting in ends for metric in ("macro_f1", "auroc")]
    varied = [f"metrics.`{POINT}{name}`" if name in NUMERIC else f"params.`{name}`" for name in fields]
    measured = (SELECTION_METRIC, "dev/auroc", "calibration/bias", *tested, "test/closed_set_accuracy")
    metrics = [f"metrics.`{name}`" for name in measured]
    columns = [*varied, MODELS, f"tags.`{SELECTED}`", *metrics]
    widths = {name: PARAM_WIDTH if name in varied else METRIC_WIDTH for name in columns}
    return {
        "searchFilter": f"tags.mlflow.parentRunId = '{parent_run_id}'",
        "orderByKey": f"metrics.`{SELECTION_METRIC}`",
        "orderByAsc": False,
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": widths,
        "runsHiddenMode": "SHOW_ALL",
        "compareRunCharts": _charts(fields, tested[:2]),
        "compareRunSections": [{"uuid": SECTION, "name": "Sweep", "display": True, "isReordered": True}],
        "isAccordionReordered": True,
    }


def _charts(fields: Sequence[str], tested: list[str]) -> list[dict[str, Any]]:
    """Parallel coordinates, coloured by the metric that chooses, and the test metric against it, where trials vary and
    were tested on unknown images."""
    shared = {"metricSectionId": SECTION, "runsCountToCompare": 100, "deleted": False, "isGenerated": False}
    across = {
        "uuid": "parallel",
        "type": "PARALLEL",
        "selectedParams": list(fields),
        "selectedMetrics": [*tested, SELECTION_METRIC],  # the last one colours
        "showAllRuns": True,
    }
    against = {
        "uuid": "scatter",
        "type": "SCATTER",
        "xaxis": {"key": SELECTION_METRIC, "type": "METRIC"},
        "yaxis": {"key": next(iter(tested), SELECTION_METRIC), "type": "METRIC"},
    }
    return [shared | chart for chart, drawn in ((across, fields), (against, tested)) if drawn]
