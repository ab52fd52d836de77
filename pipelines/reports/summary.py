"""The closing table of a run, for the terminal and for a file."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table

from proser_core.data.splits.class_split import ClassSplit, in_words
from proser_core.jobs.spec import PROSER


def percent(value: float) -> str:
    """A fraction as a percentage with one decimal."""
    return f"{100 * value:.1f}"


CAPTION = "accuracy: closed-set; known: share of known test images that stay known"
TITLES = {"auroc": "AUC", "macro_f1": "macro-F1"}


def terminal_tables(recipe_name: str, evaluation: dict[str, Any], split: ClassSplit) -> list[Table]:
    """One table a metric, as rich draws it; each fits a terminal of 80 columns. Without unknown test classes, one."""
    tables = []
    by = "number of unknown classes" if split.has_openness else "outlier set"
    by_metric = {metric: f"{title} on test images, %, by {by}" for metric, title in TITLES.items()}
    for metric, title in (by_metric if split.settings else {"": "test images of known classes, %"}).items():
        table = Table(
            title=f"{recipe_name}: {title}",
            caption=CAPTION if metric != "auroc" else None,
            title_justify="left",
            caption_justify="left",
            box=box.SIMPLE_HEAD,
        )
        table.add_column("method", no_wrap=True)
        for name in (*map(str, split.settings), "accuracy", "known"):
            table.add_column(name, justify="right", no_wrap=True)
        for name, method in evaluation["methods"].items():
            test = method["report"]["test"]
            cells = [test["settings"][str(n)][metric] for n in split.settings]
            cells += [test["closed_set_accuracy"], test["known_rate"]]
            table.add_row(name, *map(percent, cells), style="bold" if name == PROSER else "")
        tables.append(table)
    return tables


def markdown_table(
    recipe_name: str, evaluation: dict[str, Any], split: ClassSplit, notes: Mapping[str, str] | None = None
) -> str:
    """The table in Markdown, with what was selected, and the notes on outlier sets by name."""
    header = ["method", *map(in_words, split.settings), "accuracy", "known"]
    rows = [[name, *_markdown_cells(method["report"]["test"], split)] for name, method in evaluation["methods"].items()]
    calibration = evaluation["methods"][PROSER]["report"]["calibration"]
    low, high = calibration["interval"]
    lines = [
        f"# {recipe_name}: {'AUC / macro-F1 on' if split.settings else 'known'} test images, in percent",
        "",
        *_selected(evaluation),
        f"Calibrated on {calibration['num_images']} validation images: bias {calibration['bias']:.4f}; "
        f"on new known images {percent(low)} to {percent(high)} % stay known (95 % confidence).",
        "",
        "| " + " | ".join(header) + " |",
        "| --- |" + " ---: |" * (len(header) - 1),
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        *_openness(evaluation, split),
        *(f"{name}: {note}." for name, note in (notes or {}).items()),
        CAPTION.capitalize() + ".",
    ]
    return "\n".join(lines) + "\n"


def _selected(evaluation: dict[str, Any]) -> list[str]:
    name = evaluation["selected"]["name"]
    if evaluation["proxy"] is not None:
        return [f"Every class is known. Selected on a proxy, with some classes held out: {name}."]
    if "dev/macro_f1" in evaluation["methods"][PROSER]["flat"]:
        return [f"Selected on validation images and development unknowns: {name}."]
    return [f"Nothing was there to select by; the fine-tune is the recipe's own: {name}."]


def _openness(evaluation: dict[str, Any], split: ClassSplit) -> list[str]:
    proxy = evaluation["proxy"]
    if proxy is not None:
        found = f"AUC {percent(proxy['dev/auroc'])}, macro-F1 {percent(proxy['dev/macro_f1'])}"
        return [f"Unknown classes, on the proxy's validation images and development unknowns: {found}."]
    if not split.settings:
        return ["There was no unknown class to test with."]
    measured = {in_words(setting): split.openness(setting) for setting in split.settings}
    told = [f"{name} {100 * openness:.2f} %" for name, openness in measured.items() if openness is not None]
    return ["Openness: " + ", ".join(told) + "."] if told else []


def _markdown_cells(test: dict[str, Any], split: ClassSplit) -> list[str]:
    cells = [test["settings"][str(n)] for n in split.settings]
    both = [f"{percent(cell['auroc'])} / {percent(cell['macro_f1'])}" for cell in cells]
    return [*both, percent(test["closed_set_accuracy"]), percent(test["known_rate"])]
