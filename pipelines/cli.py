"""The command line: a table of commands, each a module of `pipelines.commands` that is imported when it is called."""

import importlib
import sys
from importlib.metadata import version
from typing import NamedTuple

from pipelines.recipes import RECIPES
from pipelines.tracking.server import tracking_errors
from proser_core.errors import GOES_ON, exit_code_of
from proser_core.naming import look_up


class Command(NamedTuple):
    """A module of `pipelines.commands` with a function `main(arguments) -> exit code`, and its line of the usage."""

    module: str
    arguments: str
    summary: str


COMMANDS = {
    "run": Command("run", "RECIPE", "train on images and register a calibrated open-set classifier"),
    "sweep": Command("sweep", "RECIPE SPACE ...", "train every point of search spaces on one or more class splits"),
    "reproduce": Command("reproduce", "NAME ...", "measure the paper's tables, next to the published numbers"),
    "list": Command("list_", "", "list recipes, schedules, search spaces, methods and data sets"),
    "job": Command("job", "RECIPE", "write a recipe's trainings to a file, for a machine without Ray"),
    "import": Command("import_", "OUT", "import what such a machine trained"),
    "predict": Command("predict", "MODEL PATH ...", "name the class of each image, or say that it is unknown"),
    "serve": Command("serve", "MODEL", "predict over HTTP"),
    "models": Command("models", "", "list the versions of a registered model"),
    "promote": Command("promote", "", "make a version the champion, unless it is worse than the present one"),
    "rollback": Command("rollback", "", "make the previous champion the champion again"),
    "calibrate": Command("calibrate", "MODEL", "fit a new bias on your own known images, without training"),
    "evaluate": Command("evaluate", "MODEL", "all metrics on your own labelled images"),
    "drift": Command("drift", "MODEL PATH ...", "test whether new images look like the validation images"),
    "clean": Command("clean", "", "list (with --yes: delete) artefacts that no run will reuse"),
    "ui": Command("ui", "", "browse runs, figures and models in the MLflow UI"),
}
RESUMABLE = ("run", "sweep", "reproduce", "import")
KEPT = "earlier decisions and registered versions are kept, `proser models` lists them"


def main() -> int:
    """Entry point: 0 clean, 1 finished with failed trials, 2 bad input, 130 interrupted, 143 terminated."""
    name, *arguments = sys.argv[1:] or [""]
    if name in ("", "--help", "-h"):
        print(_usage())
        return 0 if name else 2
    if name == "--version":
        print(f"proser {version('proser')}")
        return 0
    return exit_code_of(lambda: _call(name, arguments), GOES_ON if name in RESUMABLE else "")


def _call(name: str, arguments: list[str]) -> int:
    module = importlib.import_module(f"pipelines.commands.{look_up('command', name, COMMANDS).module}")
    with tracking_errors(KEPT):
        return int(module.main(arguments))


def _usage() -> str:
    lines = [f"  {f'{name} {command.arguments}':<24}{command.summary}" for name, command in COMMANDS.items()]
    more = "`proser COMMAND --help` explains every option, `proser --version` prints the version."
    return "\n".join(["usage: proser COMMAND ...", "", *lines, "", more, f"Recipes: {', '.join(RECIPES)}", ""])


if __name__ == "__main__":
    sys.exit(main())
