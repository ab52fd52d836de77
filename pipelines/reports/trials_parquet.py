"""`trials.parquet`: one row per trial and test setting, to be read by other programs.

Columns:
  recipe            string   name of the recipe
  split_index       int64    class split
  key               string   folder of the trial in the storage; null for a control that is not a trial
  name              string   the trial's parameters in words, or the control's name
  spaces            list<string>  spaces of the sweep that have the point; none for a control
  objective         string   proser; cross_entropy: the trained control, by maximum logit; control: each control
                             of the report by its name, of which that one is "CE control, MaxLogit" again
  status            string   finished, failed or stopped
  reason            string   why it failed or was stopped, else empty
  <params>          typed    every field of `finetune` but the objective, and `seed`; null for controls
  bias              double   calibrated bias, in units of the score
  val_known_rate    double   share of validation images that stay known, a fraction, as all that follow
  dev_auroc, dev_macro_f1, dev_closed_set_accuracy  double  on validation images and development unknowns
  test_closed_set_accuracy, test_known_rate, test_known_accuracy  double  on known test images
  num_known         int64    known classes
  num_unknown       int64    unknown classes of the setting; null for an outlier set
  outliers          string   the outlier set that is the setting, else null
  openness          double   openness of the setting; null for an outlier set
  auroc, aupr, fpr95, oscr, macro_f1  double  on test images of the setting

A trial that did not finish keeps a row for each setting; metrics that it never had are null. The number of dummy
classifiers C is `num_dummies`.
"""

from pathlib import Path
from typing import Any, get_type_hints

import pyarrow as pa
from pyarrow import parquet

from pipelines.reports.spaces import NOT_FIELDS
from pipelines.reports.sweep_table import SweepTable
from proser_core.config import FinetuneConfig
from proser_core.data.splits.class_split import where
from proser_core.jobs.selection import Row

ABOUT = {
    "recipe": pa.string(),
    "split_index": pa.int64(),
    "key": pa.string(),
    "name": pa.string(),
    "spaces": pa.list_(pa.string()),
    "objective": pa.string(),
    "status": pa.string(),
    "reason": pa.string(),
}
OF_TRIAL = {  # column: metric
    "bias": "calibration/bias",
    "val_known_rate": "val/known_rate",
    **{f"dev_{name}": f"dev/{name}" for name in ("auroc", "macro_f1", "closed_set_accuracy")},
    **{f"test_{name}": f"test/{name}" for name in ("closed_set_accuracy", "known_rate", "known_accuracy")},
}
OF_SETTING = ("auroc", "aupr", "fpr95", "oscr", "macro_f1")
TYPES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def write_parquet(table: SweepTable, path: Path) -> None:
    """Write all trials and controls; the same sweep gives the same bytes."""
    schema = _schema(table)
    rows = [row for trial in table.rows for row in _rows(table, trial)]
    for control in table.controls:
        rows += _rows(table, {"objective": "control", "status": "finished", "reason": "", "spaces": [], **control})
    parquet.write_table(pa.Table.from_pylist(rows, schema), path)


def _rows(table: SweepTable, trial: Row) -> list[dict[str, Any]]:
    metrics, split = trial["metrics"], table.splits[trial["split_index"]]
    shared = {name: trial.get(name) for name in ABOUT} | {"recipe": table.recipe, **trial.get("params", {})}
    shared |= {"objective": trial["objective"]}
    shared |= {column: metrics.get(metric) for column, metric in OF_TRIAL.items()}
    return [
        {
            **shared,
            "num_known": split.num_known,
            "num_unknown": setting if isinstance(setting, int) else None,
            "outliers": setting if isinstance(setting, str) else None,
            "openness": split.openness(setting),
            **{name: metrics.get(f"{where(setting)}/{name}") for name in OF_SETTING},
        }
        for setting in split.settings
    ]


def _schema(table: SweepTable) -> pa.Schema:
    columns = ABOUT | _param_types(table) | dict.fromkeys(OF_TRIAL, pa.float64())
    columns |= {"num_known": pa.int64(), "num_unknown": pa.int64(), "outliers": pa.string()}
    columns |= {"openness": pa.float64()}
    return pa.schema(columns | dict.fromkeys(OF_SETTING, pa.float64()))


def _param_types(table: SweepTable) -> dict[str, pa.DataType]:
    """As declared in `FinetuneConfig`, whatever the values are; words for a field that it lacks."""
    declared = get_type_hints(FinetuneConfig) | {"seed": int}
    names = dict.fromkeys(name for row in table.rows for name in row["params"])
    kept = [name for name in names if name == "seed" or name not in NOT_FIELDS]
    return {name: TYPES.get(declared.get(name, str), pa.string()) for name in kept}
