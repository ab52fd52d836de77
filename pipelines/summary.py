"""The closing table of a run, for the terminal and for a file."""

from typing import Any

from rich import box
from rich.table import Table

from proser_core.data.splits import ClassSplit

PROSER = "PROSER"  # the selected trial, scored by its placeholders; every other row is a control


def percent(value: float) -> str:
    """A fraction as a percentage with one decimal."""
    return f"{100 * value:.1f}"


def table_rows(evaluation: dict[str, Any], split: ClassSplit) -> tuple[list[str], list[list[str]]]:
    """Header and one row a method: AUC and macro-F1 at each setting, then what does not depend on it."""
    header = ["method", *(f"{n} unknown" for n in split.settings), "accuracy", "known"]
    rows = []
    for name, method in evaluation["methods"].items():
        test = method["report"]["test"]
        cells = [test["settings"][str(n)] for n in split.settings]
        rows.append(
            [
                name,
                *(f"{percent(cell['auroc'])} / {percent(cell['macro_f1'])}" for cell in cells),
                percent(test["closed_set_accuracy"]),
                percent(test["known_rate"]),
            ]
        )
    return header, rows


CAPTION = "accuracy: closed-set; known: share of known test images that stay known"


def terminal_table(recipe_name: str, evaluation: dict[str, Any], split: ClassSplit) -> Table:
    """The table as rich draws it."""
    header, rows = table_rows(evaluation, split)
    title = f"{recipe_name}: AUC / macro-F1 on test images, %"
    table = Table(title=title, caption=CAPTION, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)
    for position, name in enumerate(header):
        table.add_column(name, justify="left" if position == 0 else "right", no_wrap=position == 0)
    for row in rows:
        table.add_row(*row, style="bold" if row[0] == PROSER else "")
    return table


def markdown_table(recipe_name: str, evaluation: dict[str, Any], split: ClassSplit) -> str:
    """The table in Markdown, with what was selected."""
    header, rows = table_rows(evaluation, split)
    calibration = evaluation["methods"][PROSER]["report"]["calibration"]
    low, high = calibration["interval"]
    lines = [
        f"# {recipe_name}: AUC / macro-F1 on test images, in percent",
        "",
        f"Selected on validation images and development unknowns: {evaluation['selected']['name']}.",
        f"Calibrated on {calibration['num_images']} validation images: bias {calibration['bias']:.4f}; "
        f"on new known images {percent(low)} to {percent(high)} % stay known (95 % confidence).",
        "",
        "| " + " | ".join(header) + " |",
        "| --- |" + " ---: |" * (len(header) - 1),
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        "Openness: " + ", ".join(f"{n} unknown {100 * split.openness(n):.2f} %" for n in split.settings) + ".",
        CAPTION.capitalize() + ".",
    ]
    return "\n".join(lines) + "\n"
