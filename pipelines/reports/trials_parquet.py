"""`trials.parquet`: one row per trial and test setting, to be read by other programs.

Metrics are fractions. A trial that did not finish keeps a row for each setting; metrics that it never had are null.
Without unknown test classes each trial has one row, without a setting.
"""

from pathlib import Path
from typing import Any, get_type_hints

import pyarrow as pa
from pyarrow import parquet

from pipelines.reports.spaces import NOT_FIELDS
from pipelines.reports.sweep_table import SweepTable
from proser_core.config import FinetuneConfig
from proser_core.config.named_finetunes import PLACEHOLDER_FIELDS
from proser_core.data.splits.class_split import where
from proser_core.jobs.selection import Row

ABOUT = {
    "recipe": pa.string(),
    "split_index": pa.int64(),
    "key": pa.string(),  # folder of the trial in the storage; null for a control that is not a trial
    "name": pa.string(),  # the trial's parameters in words, or the control's name
    "spaces": pa.list_(pa.string()),  # that have the point; none for a control
    # proser; cross_entropy: the trained control, by maximum logit; control: each control of the report by its name, of
    # which that one is "CE control, MaxLogit" again
    "objective": pa.string(),
    "status": pa.string(),  # finished, failed or stopped
    "reason": pa.string(),  # why it failed or was stopped, else empty
}
"""Then every field of `finetune` but the objective, and `seed`; null for controls that are no trial. The trained
control has no value for fields of placeholders. C is `num_dummies`."""
KNOWN_METRICS = ("closed_set_accuracy", "balanced_accuracy", "known_rate", "known_accuracy")
OF_TRIAL = {  # column: metric
    "bias": "calibration/bias",  # in units of the score
    "val_known_rate": "val/known_rate",  # share of validation images that stay known
    # on validation images and development unknowns
    **{f"dev_{name}": f"dev/{name}" for name in ("auroc", "macro_f1", "closed_set_accuracy", "balanced_accuracy")},
    # on known test images
    **{f"test_{name}": f"test/{name}" for name in KNOWN_METRICS},
}
SETTING_METRICS = ("auroc", "aupr", "fpr95", "oscr", "macro_f1")
OF_SETTING = {
    "num_known": pa.int64(),
    "num_unknown": pa.int64(),  # null for an outlier set
    "outliers": pa.string(),  # the outlier set that is the setting, else null
    "openness": pa.float64(),  # null for an outlier set
    **dict.fromkeys(SETTING_METRICS, pa.float64()),
}
TYPES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def write_parquet(table: SweepTable, path: Path) -> None:
    """Write all trials and controls; the same sweep gives the same bytes."""
    schema = pa.schema(ABOUT | _param_types(table) | dict.fromkeys(OF_TRIAL, pa.float64()) | OF_SETTING)
    rows = [row for trial in table.rows for row in _rows(table, trial)]
    for control in table.controls:
        rows += _rows(table, {"objective": "control", "status": "finished", "reason": "", "spaces": [], **control})
    parquet.write_table(pa.Table.from_pylist(rows, schema), path)


def _rows(table: SweepTable, trial: Row) -> list[dict[str, Any]]:
    metrics, split = trial["metrics"], table.splits[trial["split_index"]]
    lacks = PLACEHOLDER_FIELDS if trial["objective"] == "cross_entropy" else ()
    params = {name: value for name, value in trial.get("params", {}).items() if name not in lacks}
    shared = {name: trial.get(name) for name in ABOUT} | {"recipe": table.recipe, **params}
    shared |= {"objective": trial["objective"]}
    shared |= {column: metrics.get(metric) for column, metric in OF_TRIAL.items()} | {"num_known": split.num_known}
    of_settings = [
        {
            **{name: metrics.get(f"{where(setting)}/{name}") for name in SETTING_METRICS},
            "num_unknown": setting if isinstance(setting, int) else None,
            "outliers": setting if isinstance(setting, str) else None,
            "openness": split.openness(setting),
        }
        for setting in split.settings
    ]
    return [shared | of_setting for of_setting in of_settings or [{}]]


def _param_types(table: SweepTable) -> dict[str, pa.DataType]:
    """Types of the parameters as `FinetuneConfig` declares them, whatever the values; text for others."""
    declared = get_type_hints(FinetuneConfig) | {"seed": int}
    names = dict.fromkeys(name for row in table.rows for name in row["params"])
    kept = [name for name in names if name == "seed" or name not in NOT_FIELDS]
    return {name: TYPES.get(declared.get(name, str), pa.string()) for name in kept}
