"""`proser promote`: make a version the champion, unless it is worse than the present one."""

from pipelines.commands.parsing import parse
from pipelines.console import console
from pipelines.workflow.requests import PromoteRequest


def main(arguments: list[str]) -> int:
    """Compare, decide and record."""
    request = parse(PromoteRequest, "promote", arguments)
    from pipelines.workflow.promotion import promote  # it loads torch and mlflow

    return promote(request, console())
