"""`proser rollback`: make the previous champion the champion again."""

from dataclasses import dataclass

from pipelines.commands.parsing import parse
from pipelines.console import console
from pipelines.workflow.requests import ModelName, PromoteRequest


@dataclass(frozen=True)
class RollbackRequest:
    """Give the alias back to the version that had it before; given again, further back."""

    alias: str = PromoteRequest.alias
    """Alias to give back."""
    model_name: ModelName = ""


def main(arguments: list[str]) -> int:
    """Roll back by one decision."""
    request = parse(RollbackRequest, "rollback", arguments)
    from pipelines.workflow.rollback import rollback  # it loads mlflow

    return rollback(request.model_name, request.alias, console())
