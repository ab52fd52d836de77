"""Tables of results in Markdown, and their columns of metrics on known test images."""

from collections.abc import Callable, Collection, Iterable, Sequence

KNOWN_COLUMNS = {
    "accuracy": "test/closed_set_accuracy",
    "balanced": "test/balanced_accuracy",
    "known": "test/known_rate",
}
"""Metrics by the heads of their columns."""


def known_columns(cells: Callable[[str], list[str]]) -> dict[str, str]:
    """KNOWN_COLUMNS, without the balanced accuracy where its cells are those of the accuracy, or have no value."""
    accuracy, balanced = (cells(KNOWN_COLUMNS[name]) for name in ("accuracy", "balanced"))
    says_more = accuracy != balanced and not {*balanced} <= {"-"}
    return {name: metric for name, metric in KNOWN_COLUMNS.items() if name != "balanced" or says_more}


def known_legend(columns: Collection[str]) -> str:
    """What the heads of `known_columns` mean."""
    balanced = ["balanced: mean accuracy of the classes"] * ("balanced" in columns)
    return "; ".join(["accuracy: closed-set; known: share of known test images that stay known", *balanced])


def table_lines(header: Sequence[str], rows: Iterable[Sequence[str]], rule: Sequence[str] = ()) -> list[str]:
    """The lines of a table. Without a `rule`, all columns but the first are of numbers."""
    rule = rule or ["---", *["---:"] * (len(header) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *rows)]
