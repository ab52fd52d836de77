"""What a fault cost: how a sweep that it struck differs from one that nothing struck."""

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from diary import Diary, Strike
from sweeps import Sweep, require
from tracked import Tracked, read_tracked

from proser_core.digests import sha256_of
from proser_core.jobs.spec import PRETRAIN, TRIALS
from proser_core.store.files import read_json
from proser_core.store.store import MANIFEST


@dataclass(frozen=True)
class Outcome:
    """What a finished sweep leaves: the digest of its table, those of each training's files, and its runs."""

    table: str
    trainings: dict[str, dict[str, str]]
    epochs: dict[str, int]
    tracked: Tracked
    seconds: float

    @classmethod
    def of(cls, sweep: Sweep) -> "Outcome":
        """Read a sweep that has finished."""
        tables = [
            path
            for path in sweep.storage.glob("sweep_report/*/tables/trials.parquet")
            if (path.parents[1] / MANIFEST).is_file()
        ]
        require(bool(tables), "no report")
        finished = [path for stage in (PRETRAIN, TRIALS) for path in sweep.storage.glob(f"{stage}/*/{MANIFEST}")]
        trainings = {_name(path, sweep.storage): read_json(path)["files"] for path in finished}
        epochs = {name: max(sweep.diary.numbers(name), default=-1) + 1 for name in trainings}
        for name, count in epochs.items():
            seen = set(sweep.diary.numbers(name))
            require(seen == set(range(count)), f"the diary lacks epochs of {name}: saw {sorted(seen)} of {count}")
        newest = max(tables, key=lambda path: path.stat().st_mtime)  # an attempt in which a trial failed has one too
        return cls(sha256_of(newest), trainings, epochs, read_tracked(sweep.tracking_uri), sweep.seconds)


def begun_again(diary: Diary, strikes: Sequence[Strike], epochs: dict[str, int]) -> list[int]:
    """Epochs that were trained twice, or once and a part, for each strike and training that it struck.

    A training in progress had begun the epoch after its last one, unless that was all of them. Raises BrokenError
    for an epoch that was trained twice though nothing had struck its training.
    """
    costs = []
    for training, count in epochs.items():
        mine = [epoch for epoch in diary.epochs if epoch.training == training]
        numbers = [epoch.number for epoch in mine]
        repeated = [epoch.at for place, epoch in enumerate(mine) if epoch.number in numbers[:place]]
        struck = [strike.at for strike in strikes if training in strike.struck]
        bounds = [*struck, math.inf]
        require(not any(at < bounds[0] for at in repeated), f"{training} repeats epochs, and nothing struck it")
        for start, end in itertools.pairwise(bounds):
            whole = sum(start <= at < end for at in repeated)
            in_part = sum(epoch.at < start for epoch in mine) < count
            costs.append(max(whole, int(in_part)))
    return costs


@dataclass(frozen=True)
class Loss:
    """A row of the table of what is lost; `broken` are the requirements that do not hold."""

    fault: str
    times: str = ""
    twice: str = ""
    again: str = ""
    doubled: str = ""
    equal: str = ""
    seconds: str = ""
    broken: tuple[str, ...] = ()

    @classmethod
    def of(cls, fault: str, sweep: Sweep, undisturbed: Outcome, damaged: Collection[str] = ()) -> "Loss":
        """Compare a sweep that was struck, and has finished since, with one that was not. `damaged` trainings have lost
        what they had, and run again."""
        outcome = Outcome.of(sweep)
        trained_twice = [name for name, count in sweep.diary.finished.items() if count > 1]
        costs = begun_again(sweep.diary, sweep.strikes, outcome.epochs)
        differing = outcome.tracked.differing(undisturbed.tracked)
        equal = outcome.table == undisturbed.table and outcome.trainings == undisturbed.trainings
        broken = [f"trained twice: {name}" for name in trained_twice if name not in damaged]
        broken += [f"not trained again: {name}" for name in damaged if not _repeats(sweep.diary.numbers(name))]
        intact = {name: count for name, count in outcome.epochs.items() if name not in damaged}
        most = max(begun_again(sweep.diary, sweep.strikes, intact), default=0)
        broken += [f"{most} epochs of one training begun again after one strike"] if most > 1 else []
        broken += [f"twice in MLflow: {name}" for name in outcome.tracked.doubled]
        broken += [f"not as undisturbed in MLflow: {name}" for name in differing]
        broken += [] if equal else ["table or networks differ from the undisturbed ones"]
        return cls(
            fault,
            str(len(sweep.strikes)),
            str(len(trained_twice)),
            f"{sum(costs)} (at most {max(costs, default=0)})",
            f"{len(outcome.tracked.doubled)} / {len(differing)}",
            "yes" if equal else "no",
            f"{outcome.seconds:.0f} ({undisturbed.seconds:.0f})",
            tuple(broken),
        )


HEADINGS = (
    "fault",
    "strikes",
    "trainings run twice",
    "epochs begun again (a training and strike)",
    "MLflow: doubled / differing",
    "table and networks equal",
    "seconds (undisturbed)",
)


def markdown(losses: Iterable[Loss]) -> str:
    """The table of what is lost."""
    rows = [HEADINGS, ("---", *["---:"] * 4, "---", "---:")]
    rows += [
        (loss.fault, loss.times, loss.twice, loss.again, loss.doubled, loss.equal, loss.seconds) for loss in losses
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _repeats(numbers: list[int]) -> bool:
    return len(set(numbers)) < len(numbers)


def _name(manifest: Path, storage: Path) -> str:
    return manifest.parent.relative_to(storage).as_posix()
