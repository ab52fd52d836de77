"""`python -m benchmarks.document benchmark.json docs/speed-tables.md`: fills a document's marks with tables."""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness.tables import Table, Target, targets_table

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def filled(document: str, results: dict[str, Any]) -> str:
    """The document with the results in place of what stood between its marks."""
    before, _, rest = document.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the document has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n\n{measured(results)}\n{END}{after}"


def measured(results: dict[str, Any]) -> str:
    """Environment, seconds that it took, targets and every table as Markdown."""
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


def main() -> None:
    """Fill the document named second from the JSON named first."""
    results, document = (Path(name) for name in sys.argv[1:])
    document.write_text(
        filled(document.read_text(encoding="utf-8"), json.loads(results.read_bytes())), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
