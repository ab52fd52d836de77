"""Which version holds an alias, and why: every decision is an MLflow run, and an alias moves in one place alone."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlflow import MlflowClient
from mlflow.entities import Run

from pipelines.tracking.runs import LONGEST_TAG, fitting, run_of_its_own
from pipelines.tracking.server import NOTE, all_pages, experiment_id, quoted, tracking_uri
from proser_core.errors import ConfigError, InUseError, StorageError, TrackingError
from proser_core.store.files import cache_folder
from proser_core.store.lock import exclusive_storage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KIND, MODEL, ALIAS, VERSION, BEFORE = (f"proser.decision{part}" for part in ("", ".model", ".alias", ".to", ".from"))
PROMOTED, FORCED, REFUSED, ROLLED_BACK = "promoted", "promoted by force", "refused", "rolled back"
OVERTAKEN = "without effect"  # what was decided, and could not be done
ALIASES = re.compile(r"(?!(?i:latest|v\d+)$)[A-Za-z0-9_-]{1,255}")  # as MLflow takes them
NOTE_FILE = "decision.md"
LOCKS = cache_folder() / "locks"


def check_alias(alias: str) -> None:
    """Raises ConfigError for an alias that MLflow refuses."""
    if not ALIASES.fullmatch(alias):
        raise ConfigError(f"--alias got {alias!r}; need letters, digits, - or _, and not `latest` or `v3`")


@dataclass(frozen=True)
class Decision:
    """`alias` of `model` goes from version `before` (empty: none) to `version`; or not, where it is refused."""

    kind: str
    model: str
    alias: str
    version: str
    before: str

    @property
    def title(self) -> str:
        """Title in the list of runs."""
        over = f" over version {self.before}" if self.before else ""
        return f"{self.kind}: {self.model} version {self.version} as {self.alias}{over}"


@contextmanager
def alone(model: str) -> Iterator[None]:
    """One decision on a model at a time by this user on this machine, where there is a home that can be written and
    locked; `carry_out` checks for decisions elsewhere."""
    name = hashlib.sha256(f"{tracking_uri()}\0{model}".encode()).hexdigest()[:16]
    with ExitStack() as stack:
        try:
            folder = LOCKS.expanduser() / name
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(exclusive_storage(folder, f"a decision on the model {model!r}"))
        except InUseError as error:
            raise TrackingError(f"another decision on the model {model!r} is being made here; wait for it") from error
        except (OSError, RuntimeError, ConfigError, StorageError):  # RuntimeError: a user without a home
            pass
        yield


def holder(client: MlflowClient, model: str, alias: str) -> str:
    """The version that has the alias, empty where none has."""
    return str(client.get_registered_model(model).aliases.get(alias, ""))


def settle(client: MlflowClient, model: str, alias: str) -> str:
    """The version that has the alias. Ends the runs of decisions whose process was killed, or never learnt whether the
    alias moved: as finished where their version has the alias, else, since they moved nothing, as killed."""
    now = holder(client, model, alias)
    query = f"{_of(model, alias)} and tags.`{KIND}` != '{OVERTAKEN}'"
    query += "".join(f" and attributes.status != '{status}'" for status in ("FINISHED", "KILLED"))
    for run in all_pages(client.search_runs, [experiment_id(client)], query, order_by=["start_time DESC"]):
        client.set_terminated(run.info.run_id, "FINISHED" if run.data.tags[VERSION] == now else "KILLED")
    return now


def carry_out(
    client: MlflowClient, decision: Decision, metrics: Mapping[str, float], note: str, figure: "Figure | None" = None
) -> str:
    """Write down what was decided and on what grounds, and move the alias unless it is refused; the run's id. Raises
    TrackingError where the alias is not where the decision found it; the run then says that it had no effect. A move
    whose answer is lost has an effect where the alias says so; an interrupt is raised after that is written down."""
    moves, interrupt = decision.kind != REFUSED, None
    tags = {
        KIND: decision.kind,
        MODEL: decision.model,
        ALIAS: decision.alias,
        VERSION: decision.version,
        BEFORE: decision.before,
        NOTE: fitting(note, LONGEST_TAG, NOTE_FILE),
    }
    with run_of_its_own(client, decision.title, tags) as run_id:
        try:
            for name, value in metrics.items():
                client.log_metric(run_id, name, value)
            client.log_text(run_id, note, NOTE_FILE)
            if figure is not None:
                client.log_figure(run_id, figure, "comparison.png", save_kwargs={"dpi": 150})
            if moves:
                _check_unmoved(client, decision)
        except BaseException:
            with suppress(Exception):  # the error itself matters more than the tag
                client.set_tag(run_id, KIND, OVERTAKEN)
            raise
        try:
            if moves:
                client.set_registered_model_alias(decision.model, decision.alias, decision.version)
        except BaseException as error:
            if not _took_effect(client, decision):  # or cannot be told yet: `settle` looks again
                raise
            interrupt = None if isinstance(error, Exception) else error
    if interrupt is not None:
        raise interrupt
    return run_id


def _check_unmoved(client: MlflowClient, decision: Decision) -> None:
    now = holder(client, decision.model, decision.alias)
    if now != decision.before:
        raise TrackingError(
            f"{decision.alias} of {decision.model!r} went from version {decision.before or 'none'} to "
            f"{now or 'none'} while this was decided; run the command again to compare with that one"
        )


def _took_effect(client: MlflowClient, decision: Decision) -> bool:
    with suppress(Exception):
        return holder(client, decision.model, decision.alias) == decision.version
    return False


def holders_before(client: MlflowClient, model: str, alias: str, now: str) -> list[str]:
    """The versions that had the alias on the way to version `now`, oldest first, some of them perhaps deleted since;
    all of them where no version has it now, as after its deletion.

    Decisions are replayed in the order of their links: a promotion adds a version, a rollback goes back to one. Moves
    of the alias that `proser` did not make are unknown.
    """
    query = f"{_of(model, alias)} and attributes.status = 'FINISHED'"
    query += "".join(f" and tags.`{KIND}` != '{kind}'" for kind in (REFUSED, OVERTAKEN))
    runs = all_pages(client.search_runs, [experiment_id(client)], query, order_by=["start_time ASC"])
    held: list[str] = []
    for run in _linked(runs, now):
        version, before = run.data.tags[VERSION], run.data.tags[BEFORE]
        held = _way_to(before, held)
        if run.data.tags[KIND] == ROLLED_BACK:
            held = _way_to(version, held[:-1] if before else held)
        else:
            held.append(version)
    return _way_to(now, held)[:-1] if now else held


def _linked(runs: Sequence[Run], now: str) -> list[Run]:
    """The decisions among `runs`, which are in order of time, that led to version `now`, oldest first. Each
    begins where the one before it ended. Times are of machines whose clocks may differ: the latest counts only of
    several that fit, and before an alias that no version had."""
    left, linked = list(runs), []
    while fits := [run for run in left if not now or run.data.tags[VERSION] == now]:
        linked.append(fits[-1])
        left.remove(fits[-1])
        now = linked[-1].data.tags[BEFORE]
        if not now:
            left = [run for run in left if run.info.start_time <= linked[-1].info.start_time]
    return linked[::-1]


def _of(model: str, alias: str) -> str:
    return f"tags.`{MODEL}` = {quoted(model)} and tags.`{ALIAS}` = {quoted(alias)}"


def _way_to(version: str, held: list[str]) -> list[str]:
    """`held` as far as where the version had the alias last, all of it without a version; the version alone, where it
    never did."""
    if not version:
        return held
    if version not in held:
        return [version]
    return held[: len(held) - held[::-1].index(version)]
