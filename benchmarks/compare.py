"""Quality over class splits and seeds: paired differences with their interval.

    python -m benchmarks.compare OUT0 OUT1 OUT2 [--against NAME]
    python -m benchmarks.compare FAST0 FAST1 FAST2 --with LONG0 LONG1 LONG2

Each OUT is a folder that `python -m proser_core.job` filled, for one split and seed. Without
`--with`, every training is compared with the control of its own folder; with it, each training
with the one of the same name in the partner folder, which must have the same prepared images. A
training that is not on every side is left out, and named.
"""

import argparse
import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import t

from benchmarks.harness.tables import Table
from proser_core.jobs.spec import PREPARE
from proser_core.store.store import load_if_complete

METRICS = ("dev/auroc", "dev/macro_f1", "dev/closed_set_accuracy")
TEST_METRICS = (
    "test/unknown_15/auroc",
    "test/unknown_15/macro_f1",
    "test/unknown_85/auroc",
    "test/unknown_85/macro_f1",
)
CONTROL = "CE control: MaxLogit"
Rows = dict[str, dict[str, float]]


class Results(NamedTuple):
    """What a folder holds: the digest of its prepared images, and metrics by `training: method`."""

    images: str
    rows: Rows


def main(arguments: list[str] | None = None) -> None:
    """Print one table; exit code 2 for folders that cannot be compared."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="OUT")
    parser.add_argument("--with", dest="partners", nargs="+", type=Path, metavar="OUT", help="the other side of each")
    parser.add_argument("--against", default=CONTROL, metavar="NAME", help=f"row to compare with ({CONTROL})")
    parser.add_argument("--test", action="store_true", help="test metrics, of a configuration that is frozen")
    options = parser.parse_args(arguments)
    found = _read_all(parser, options.folders)
    ours = [results.rows for results in found]
    if options.partners is None:
        if any(options.against not in rows for rows in ours):
            parser.error(f"--against {options.against!r} is not in every folder; there are {', '.join(ours[0])}")
        theirs = [dict.fromkeys(rows, rows[options.against]) for rows in ours]
    elif len(options.partners) != len(ours):
        parser.error(f"got {len(ours)} folders and {len(options.partners)} partners; each folder needs one")
    else:
        partners = _read_all(parser, options.partners)
        _refuse_other_images(parser, options, found, partners)
        theirs = [results.rows for results in partners]
    metrics = TEST_METRICS if options.test else METRICS
    missing = [name for name in metrics if any(name not in row for rows in (*ours, *theirs) for row in rows.values())]
    if missing:
        parser.error(f"{missing[0]} is not among the metrics of every training; omit --test, or give other folders")
    if not in_all(ours, theirs):
        parser.error("no training has a result in every folder and its partner; there are " + ", ".join(ours[0]))
    print(comparison(ours, theirs, metrics).markdown())


def _read_all(parser: argparse.ArgumentParser, folders: list[Path]) -> list[Results]:
    found = []
    for folder in folders:
        try:
            found.append(read_results(folder))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            parser.error(
                f"{folder} has no readable results.json or prepared images; need folders that "
                "`python -m proser_core.job` filled"
            )
    return found


def _refuse_other_images(
    parser: argparse.ArgumentParser, options: argparse.Namespace, ours: list[Results], theirs: list[Results]
) -> None:
    """Exit where a pair is not of one split: their difference would be the splits'."""
    for folder, mine, partner, other in zip(options.folders, ours, options.partners, theirs, strict=True):
        if mine.images != other.images:
            parser.error(
                f"{folder} and {partner} were trained on other images: another class split, seed, size or data set; "
                "give each folder the partner of its own split"
            )


def read_results(folder: Path) -> Results:
    """Read a folder's results.json. Raises FileNotFoundError where it or the prepared images are not there."""
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    prepared = load_if_complete(folder / PREPARE / results["task"])
    if prepared is None:
        raise FileNotFoundError(folder / PREPARE)
    rows = {
        f"{name}: {method}": metrics
        for name, one in results["trainings"].items()
        for method, metrics in one["methods"].items()
    }
    return Results(prepared.digest, rows)


def in_all(ours: list[Rows], theirs: list[Rows]) -> list[str]:
    """Names that every folder and every partner has, in the order of the first."""
    return [name for name in ours[0] if all(name in rows for rows in (*ours, *theirs))]


def comparison(ours: list[Rows], theirs: list[Rows], metrics: tuple[str, ...]) -> Table:
    """Mean of each metric in percent, and the mean paired difference with its 95 % interval in points."""
    names = in_all(ours, theirs)
    rows = []
    for name in names:
        cells: list[str] = []
        for metric in metrics:
            values = np.array([100 * rows_of[name][metric] for rows_of in ours])
            others = np.array([100 * rows_of[name][metric] for rows_of in theirs])
            cells += [f"{values.mean():.1f}", difference_text(values - others)]
        rows.append((name, *cells))
    columns = [text for metric in metrics for text in (metric, "difference")]
    left_out = dict.fromkeys(name for rows_of in (*ours, *theirs) for name in rows_of if name not in names)
    notes = (f"Left out, because not every folder has a result: {'; '.join(left_out)}.",) if left_out else ()
    return Table(f"{len(ours)} pairs", ("training: method", *columns), rows, notes)


def difference_text(differences: np.ndarray) -> str:
    """`+0.4 ± 0.9`: mean and half width of the 95 % t interval, where there are two or more."""
    count, mean = len(differences), round(float(differences.mean()), 1) + 0.0
    if count < 2:
        return f"{mean:+.1f}"
    half = t.ppf(0.975, count - 1) * differences.std(ddof=1) / math.sqrt(count)
    return f"{mean:+.1f} ± {half:.1f}"


if __name__ == "__main__":
    main()
