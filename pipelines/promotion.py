"""`proser promote` and `proser rollback`: which version of a model is the champion, decided on the same images."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from pipelines.promotion_report import comparison_figure, comparison_table, decision_note, metrics_of
from pipelines.tracking import decisions
from pipelines.tracking.decisions import Decision, holder, move, record
from pipelines.tracking.models import Model, load, versions_of
from pipelines.tracking.registry import CANDIDATE, CHAMPION
from pipelines.tracking.server import connect, tracking_uri
from proser_core.errors import ConfigError, TrackingError
from proser_core.jobs.lock import alone_in
from proser_core.recognition.comparison import Comparison, compare

if TYPE_CHECKING:
    from mlflow import MlflowClient

TOLERANCE = 0.02
LOCKS = Path("~/.cache/proser/locks")


@dataclass(frozen=True)
class PromoteRequest:
    """Give `alias` to a version of a model: `version`, or empty for the candidate.

    `tolerance` is how much of a metric, a fraction, may be lost with 95 % confidence; `force` promotes against
    objections, and is recorded.
    """

    model: str = "proser"
    version: str = ""
    alias: str = CHAMPION
    tolerance: float = TOLERANCE
    force: bool = False


def promote(request: PromoteRequest, console: Console) -> int:
    """Compare, decide, record, and move the alias; the exit code is 1 where the candidate is refused.

    Raises TrackingError where there is no such version, where the two cannot be compared, or where another
    promotion comes in between.
    """
    if not 0 <= request.tolerance < 1:
        raise ConfigError(f"--tolerance got {request.tolerance:g}; need a fraction of 0 or more below 1, such as 0.02")
    client = connect()
    candidate = load(f"models:/{request.model}" + (f"/{request.version}" if request.version else f"@{CANDIDATE}"))
    assert candidate.version is not None
    with _alone(request.model):
        before = holder(client, request.model, request.alias)
        if before == candidate.version.number:
            _say(console, f"{candidate.title} is the {request.alias} already; nothing to do")
            return 0
        wanted = Decision(decisions.PROMOTED, request.model, request.alias, candidate.version.number, before)
        if not before:
            return _first(client, wanted, candidate, console)
        champion = load(f"models:/{request.model}/{before}")
        comparison = _compare(candidate, champion, request)
        return _decide(client, wanted, candidate, champion, comparison, request, console)


def rollback(model: str, alias: str, console: Console) -> int:
    """Give the alias back to the version that had it before.

    Raises TrackingError where no decision tells which, or that version is gone.
    """
    client = connect()
    if not versions_of(client, model):
        load(f"models:/{model}@{alias}")  # says what there is
    with _alone(model):
        now = holder(client, model, alias)
        before = decisions.came_from(client, model, alias, now) if now else ""
        if not before:
            raise TrackingError(
                f"no decision tells which version of {model!r} was {alias} before {now or 'now'}; "
                "`proser promote --version N --force` names one"
            )
        if before not in {version.number for version in versions_of(client, model)}:
            raise TrackingError(f"version {before} of {model!r}, the {alias} before, was deleted; promote another one")
        decision = Decision(decisions.ROLLED_BACK, model, alias, before, now)
        record(client, decision, {}, f"# {decision.title}\n\nRolled back by hand.\n")
        move(client, decision)
    _say(console, f"{model} version {before} is the {alias} again, in the place of version {now}")
    return 0


def _first(client: "MlflowClient", decision: Decision, candidate: Model, console: Console) -> int:
    record(
        client, decision, {}, f"# {decision.title}\n\nNo version had the alias; there was nothing to compare with.\n"
    )
    move(client, decision)
    _say(console, f"{candidate.title} is the {decision.alias} now; there was none before")
    return 0


def _compare(candidate: Model, champion: Model, request: PromoteRequest) -> Comparison | None:
    """None where the two saw different images, and force is to promote without. Raises TrackingError without force."""
    ours, theirs = candidate.classifier, champion.classifier
    if ours.holdout is not None and theirs.holdout is not None:
        if ours.holdout.fingerprint == theirs.holdout.fingerprint:
            bias = theirs.calibration.bias
            return compare(ours.holdout, ours.calibration, theirs.holdout, bias, tolerance=request.tolerance)
        reason = "their validation and development images, or their classes, are not the same"
    else:
        reason = "one of them does not say what it made of its validation images"
    if request.force:
        return None
    raise TrackingError(
        f"{candidate.title} and {champion.title} cannot be compared: {reason}. Train both on the same class split, "
        "or promote it without a comparison with --force"
    )


def _decide(
    client: "MlflowClient",
    wanted: Decision,
    candidate: Model,
    champion: Model,
    comparison: Comparison | None,
    request: PromoteRequest,
    console: Console,
) -> int:
    objections = ["it could not be compared"] if comparison is None else comparison.objections
    if objections:
        wanted = replace(wanted, kind=decisions.FORCED if request.force else decisions.REFUSED)
    figure = None
    if comparison is not None:
        console.print(comparison_table(comparison, candidate, champion))
        figure = comparison_figure(comparison, candidate.title, champion.title)
    note = decision_note(wanted, comparison, objections, candidate, champion)
    run_id = record(client, wanted, {} if comparison is None else metrics_of(comparison), note, figure)
    for objection in objections:
        _say(console, f"objection: {objection}")
    if wanted.kind == decisions.REFUSED:
        _say(console, f"refused: {champion.title} stays the {wanted.alias}; --force promotes all the same")
    else:
        move(client, wanted)
        _say(console, f"{wanted.kind}: {candidate.title} is the {wanted.alias} now, in the place of {champion.title}")
    _say(console, f"recorded as run {run_id} of {tracking_uri()}")
    return 1 if wanted.kind == decisions.REFUSED else 0


@contextmanager
def _alone(model: str) -> Iterator[None]:
    """One decision on a model at a time on this machine; over machines `move` looks once more before it writes."""
    folder = LOCKS.expanduser() / hashlib.sha256(f"{tracking_uri()}\0{model}".encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with alone_in(folder, f"a decision on the model {model!r}"):
        yield


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
