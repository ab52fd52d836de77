"""`proser run RECIPE`: train on images and register a calibrated open-set classifier."""

from rich.console import Console

from pipelines.commands.parsing import parse_with_recipe
from pipelines.console import console, say
from pipelines.workflow.requests import RunRequest


def main(arguments: list[str]) -> int:
    """Run, or draw what would run."""
    request = parse_with_recipe(RunRequest, "run", arguments)
    if request.draw is None:
        return run(request, console())
    from pipelines.workflow.graph import draw  # it loads torch, ray and mlflow: not for --help

    draw(request.draw)
    say(console(), f"written: {request.draw}")
    return 0


def run(request: RunRequest, console: Console) -> int:
    """Run the recipe through every stage, or print the plan; exit code 1 where a trial failed or tracking was lost.
    Raises ProserError before any work for whatever can be refused."""
    from pipelines.workflow.checks import check_request  # it loads torch, and neither ray nor mlflow

    checked = check_request(request)
    from pipelines.workflow.run import run_checked

    return run_checked(request, checked, console)
