"""A saved view of the MLflow UI for each sweep: its trials with the columns, the order and the charts that matter.

The UI keeps saved views as tags of the experiment and lists them under "Views"; a link opens one (read from
the UI of MLflow 3.17, which documents the views but not their format). A UI that does not know it shows
the experiment as it does without a view.
"""

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from proser_core.data.splits.class_split import Setting, where

if TYPE_CHECKING:
    from mlflow import MlflowClient

TAG, OWN = "mlflow.sharedViewState.", "proser-"
KEPT = 20  # views of sweeps that stay; the UI lets no one save a view beside 40
POINT = "point/"  # numeric fields of a trial as metrics, because the UI sorts and compares params as text
NUMERIC = ("beta", "gamma", "C", "alpha", "lr")
CHOOSES = "dev/macro_f1"
PARAM_WIDTH, METRIC_WIDTH = 90, 150  # pixels
SECTION = "sweep"


def point_metrics(params: dict[str, Any]) -> dict[str, float]:
    """A trial's numeric fields by the names that the UI can sort; none of a control, which has no dummies."""
    if params.get("objective") == "cross_entropy":
        return {}
    return {f"{POINT}{name}": float(params[name]) for name in NUMERIC if name in params}


def sweep_link(base_url: str, experiment_id: str, parent_run_id: str, charts: bool = False) -> str:
    """Address of a sweep's saved view on the server at `base_url`: the table of its trials, or their charts."""
    address = f"{base_url.rstrip('/')}/#/experiments/{experiment_id}/runs?viewStateShareKey={OWN}{parent_run_id}"
    return f"{address}&compareRunsMode=CHART" if charts else address


def save_sweep_view(
    client: "MlflowClient",
    experiment_id: str,
    parent_run_id: str,
    name: str,
    fields: Sequence[str],
    settings: Sequence[Setting],
) -> None:
    """Save, or replace, the view of a sweep in which `fields` of the trials' params vary; the oldest ones go."""
    tags = client.get_experiment(experiment_id).tags
    key, now = f"{TAG}{OWN}{parent_run_id}", int(1000 * time.time())
    created = json.loads(tags[key])["createdAt"] if key in tags else now
    state = json.dumps(view_state(parent_run_id, fields, settings))
    view = {"name": name, "createdAt": created, "updatedAt": now, "state": state}
    client.set_experiment_tag(experiment_id, key, json.dumps(view))
    others = [tag for tag in tags if tag.startswith(TAG + OWN) and tag != key]
    newest_first = sorted(others, key=lambda tag: -json.loads(tags[tag])["createdAt"])
    for tag in newest_first[KEPT - 1 :]:
        client.delete_experiment_tag(experiment_id, tag)


def view_state(parent_run_id: str, fields: Sequence[str], settings: Sequence[Setting]) -> dict[str, Any]:
    """The UI's own description of a page: filter, order, columns, charts."""
    ends = list(dict.fromkeys((settings[0], settings[-1])))
    tested = [f"{where(setting)}/{metric}" for setting in ends for metric in ("macro_f1", "auroc")]
    told = [f"metrics.`{POINT}{name}`" if name in NUMERIC else f"params.`{name}`" for name in fields]
    metrics = [f"metrics.`{name}`" for name in (CHOOSES, "dev/auroc", *tested, "test/closed_set_accuracy")]
    columns = ["params.`split_index`", *told, *metrics]
    widths = {name: PARAM_WIDTH if name not in metrics else METRIC_WIDTH for name in columns}
    return {
        "searchFilter": f"tags.mlflow.parentRunId = '{parent_run_id}'",
        "orderByKey": f"metrics.`{CHOOSES}`",
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
    """Parallel coordinates, coloured by the metric that chooses, and the test metric against it."""
    shared = {"metricSectionId": SECTION, "runsCountToCompare": 100, "deleted": False, "isGenerated": False}
    across = {
        "uuid": "parallel",
        "type": "PARALLEL",
        "selectedParams": list(fields),
        "selectedMetrics": [*tested, CHOOSES],  # the last one colours
        "showAllRuns": True,
    }
    against = {
        "uuid": "scatter",
        "type": "SCATTER",
        "xaxis": {"key": CHOOSES, "type": "METRIC"},
        "yaxis": {"key": tested[0], "type": "METRIC"},
    }
    return [shared | across, shared | against]
