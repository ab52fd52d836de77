"""`proser job RECIPE`: write a recipe's trainings to a file, for a machine without Ray."""

from pipelines.commands.parsing import parse_with_recipe
from pipelines.console import console
from pipelines.workflow.requests import JobRequest


def main(arguments: list[str]) -> int:
    """Write the file."""
    request = parse_with_recipe(JobRequest, "job", arguments)
    from pipelines.workflow.offline_jobs import write_job  # it loads torch

    write_job(request, console())
    return 0
