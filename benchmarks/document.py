"""Put the tables of a JSON file that `python -m benchmarks` wrote between the marks of a document.

python -m benchmarks.document benchmark.json benchmarks/measured.md
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.tables import Table, Target, targets_table

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def filled(document: str, results: dict[str, Any]) -> str:
    """The document with the results in place of what stood between its marks."""
    before, _, rest = document.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the document has no {BEGIN} ... {END}; add both lines where the tables belong")
    return f"{before}{BEGIN}\n\n{measured(results)}\n{END}{after}"


def measured(results: dict[str, Any]) -> str:
    """Environment, seconds, targets and every table, as Markdown."""
    about = [f"- {name}: {value}" for name, value in results["environment"].items()]
    seconds = {name: report["seconds"] for name, report in results["benchmarks"].items()}
    each = ", ".join(f"{name} {value:.0f}" for name, value in seconds.items())
    parts, targets = ["\n".join([*about, f"- seconds of all benchmarks: {sum(seconds.values()):.0f} ({each})"])], []
    for name, report in results["benchmarks"].items():
        parts.append(f"### {name}")
        parts += [Table(**table).markdown().rstrip() for table in report["tables"]]
        targets += [Target(**{key: t[key] for key in t if key != "verdict"}) for t in report["targets"]]
    parts.insert(1, targets_table(targets).markdown().rstrip())
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill the document; exit code 2 where it has no marks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.document", description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, metavar="JSON")
    parser.add_argument("document", type=Path, metavar="DOCUMENT")
    options = parser.parse_args(arguments)
    try:
        text = filled(options.document.read_text(encoding="utf-8"), json.loads(options.results.read_bytes()))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    options.document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
