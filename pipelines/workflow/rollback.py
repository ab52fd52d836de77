"""`proser rollback`: the champion before, by the record of decisions. It loads no torch."""

from rich.console import Console

from pipelines.console import say
from pipelines.tracking import decisions
from pipelines.tracking.decisions import Decision, alone, carry_out
from pipelines.tracking.server import connect
from pipelines.tracking.versions import existing_versions, model_named
from proser_core.errors import TrackingError


def rollback(model: str, alias: str, console: Console) -> int:
    """Give the alias back to the version that had it before, skipping deleted ones; further back each time. Raises
    ConfigError for an alias that MLflow refuses, TrackingError where no such version is recorded, or all of them were
    deleted."""
    decisions.check_alias(alias)
    client = connect(writes=True)
    model = model_named(client, model)
    with alone(model):
        versions = existing_versions(client, model)
        now = decisions.settle(client, model, alias)
        earlier = decisions.holders_before(client, model, alias, now)
        if not earlier:
            raise TrackingError(
                f"no decision records which version of {model!r} was {alias} before {now or 'now'}; "
                "`proser promote --version N --force` names one"
            )
        there = {version.number for version in versions} - {now}
        before = next((version for version in reversed(earlier) if version in there), "")
        if not before:
            raise TrackingError(
                f"version {earlier[-1]} of {model!r}, the {alias} before, was deleted, as were all earlier ones; "
                "promote another one"
            )
        decision = Decision(decisions.ROLLED_BACK, model, alias, before, now)
        carry_out(client, decision, {}, f"# {decision.title}\n\nRolled back by hand.\n")
    instead = f", instead of version {now}" if now else ""
    say(console, f"{model} version {before} is the {alias} again{instead}")
    return 0
