"""Small tables of sweeps, made for the tests of what is drawn and written from them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from pipelines.reports.figures.over_points import over_points
from pipelines.reports.spaces import spaces_of
from pipelines.reports.sweep_table import SweepTable
from proser_core.config import FinetuneConfig, to_json
from proser_core.data.splits.class_split import ClassSplit
from proser_core.jobs.selection import Row
from tune_spaces import expand, space_info

SETTINGS = (15, 30)
SPLIT = ClassSplit(tuple(range(15)), tuple(range(15, 45)), SETTINGS)
CONTROLS = {"MSP": 0.60, "MaxLogit": 0.66, "CE control, MSP": 0.59, "CE control, MaxLogit": 0.65}
GRID = [point["finetune"] for point in expand("trade_off")]
COUNTS = [point["finetune"] for point in expand("num_dummies")]
ALPHAS = [point["finetune"] for point in expand("mixup_alpha")]
PARTS = [point["finetune"] for point in expand("ablation")]
AT_15 = "test/unknown_15"
Value = Callable[[dict[str, Any], int], float]  # development macro-F1 of a point on a split


def metrics(macro_f1: float) -> dict[str, float]:
    """A report in which everything follows from the development macro-F1."""
    flat = {"calibration/bias": 1.5, "val/known_rate": 0.95, "dev/auroc": macro_f1 + 0.1, "dev/macro_f1": macro_f1}
    flat |= {"dev/closed_set_accuracy": 0.9, "test/closed_set_accuracy": 0.88}
    flat |= {"dev/balanced_accuracy": 0.9, "test/balanced_accuracy": 0.88}
    flat |= {"test/known_rate": 0.94, "test/known_accuracy": 0.85}
    for place, setting in enumerate(SETTINGS):
        own = macro_f1 - 0.1 * place
        named = {"openness": SPLIT.openness(setting), "auroc": own + 0.2, "aupr": 0.5, "fpr95": 0.4, "oscr": 0.7}
        flat |= {f"test/unknown_{setting}/{name}": value for name, value in {**named, "macro_f1": own}.items()}
    return flat


def trial(fields: dict[str, Any], split_index: int, value: float, space: str) -> Row:
    """A finished trial with these fields of `finetune`."""
    params = to_json(replace(FinetuneConfig(), **fields))
    params |= {"C": params["num_dummies"], "split_index": split_index, "seed": 0}
    name = f"{space} {fields} on {split_index}"
    return {
        "key": f"key of {name}",
        "name": name,
        "objective": "proser",
        "split_index": split_index,
        "spaces": [space],
        "params": params,
        "status": "finished",
        "reason": "",
        "metrics": metrics(value),
    }


def table(
    space: str, points: Iterable[dict[str, Any]], splits: Iterable[int], value: Value, recipe: str = "made"
) -> SweepTable:
    """A sweep over one space in which every trial finished; controls lie a hundredth higher on each further split."""
    indices = list(splits)
    listed = list(points)
    controls = [
        {"split_index": index, "name": name, "metrics": metrics(level + 0.01 * index)}
        for index in indices
        for name, level in CONTROLS.items()
    ]
    rows = [trial(point, index, value(point, index), space) for index in indices for point in listed]
    splits = dict.fromkeys(indices, SPLIT)
    return SweepTable(recipe, {space: space_info(space)}, splits, rows, controls, FinetuneConfig(), data_set="cifar100")


def losing(
    made: SweepTable, fields: dict[str, Any], split_index: int, status: str = "failed", reason: str = "not finite"
) -> SweepTable:
    """The same sweep, but this trial did not finish."""

    def lost(row: Row) -> Row:
        is_it = row["split_index"] == split_index and all(row["params"][name] == fields[name] for name in fields)
        return {**row, "status": status, "reason": reason, "metrics": {}} if is_it else row

    return replace(made, rows=[lost(row) for row in made.rows])


def lacking(made: SweepTable, fields: dict[str, Any], split_index: int) -> SweepTable:
    """The same sweep without this trial."""
    kept = [
        row
        for row in made.rows
        if row["split_index"] != split_index or any(row["params"][name] != fields[name] for name in fields)
    ]
    return replace(made, rows=kept)


def by_weights(point: dict[str, Any], split_index: int) -> float:
    """Best at beta 0, gamma 0, and a hundredth higher on each further split."""
    return 0.64 - 0.002 * point["beta"] - 0.003 * point["gamma"] + 0.01 * split_index


def by_count(point: dict[str, Any], split_index: int) -> float:
    return 0.60 + 0.001 * point["num_dummies"] + 0.02 * split_index


def by_alpha(point: dict[str, Any], split_index: int) -> float:
    return 0.60 + 0.01 * point["alpha"] + 0.005 * (point["mixup"] == "vanilla") + 0.01 * split_index


def by_order(point: dict[str, Any], split_index: int) -> float:
    return 0.60 + 0.01 * PARTS.index(point) + 0.01 * split_index


def trade_off(splits: range = range(2)) -> SweepTable:
    return table("trade_off", GRID, splits, by_weights)


def texts(figure: Figure) -> str:
    """Everything that is written on a figure."""
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    found += [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return "\n".join([*found, figure.get_supxlabel()]).replace("\n", " ")


def drawn(made: SweepTable, metric: str = "macro_f1", place: str = AT_15) -> Figure:
    return over_points(spaces_of(made)[0], [f"{place}/{metric}"])
