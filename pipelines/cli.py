"""The command line: a table of commands, each a module of `pipelines.commands` that is imported when it is called."""

import gc
import importlib
import os
import sys
from importlib.metadata import version
from textwrap import fill
from typing import NamedTuple

from pipelines.commands.signals import terminated_by_signals
from pipelines.recipes import RECIPES
from pipelines.tracking.server import tracking_errors
from proser_core.errors import ConfigError
from proser_core.exit_codes import GOES_ON, exit_code_of
from proser_core.naming import unknown_name
from proser_core.processor import bound_threads


class Command(NamedTuple):
    """A module of `pipelines.commands` with a function `main(arguments) -> exit code`, and its line of the usage."""

    module: str
    arguments: str
    summary: str


USING = "Use a model"
GROUPS = {
    "Images": {"inspect": Command("inspect_", "MY_IMAGES", "find what is wrong with your own images")},
    "Train": {
        "run": Command("run", "RECIPE", "train on images, and register a calibrated classifier"),
        "sweep": Command("sweep", "RECIPE SPACE ...", "train every point of search spaces on class splits"),
        "reproduce": Command("reproduce", "NAME ...", "measure the paper's tables, next to published numbers"),
    },
    USING: {
        "predict": Command("predict", "MODEL PATH ...", "name the class of each image, or call it unknown"),
        "evaluate": Command("evaluate", "MODEL", "measure all metrics on your own labelled images"),
        "calibrate": Command("calibrate", "MODEL", "fit a new bias on your own known images"),
        "review": Command("review", "MODEL PATH ...", "group unknown images, for you to name as new classes"),
        "drift": Command("drift", "MODEL PATH ...", "test whether images look like the validation images"),
        "serve": Command("serve", "MODEL", "predict over HTTP, with a page to try it on"),
        "export": Command("export", "MODEL", "write a model as one file for torch or ONNX Runtime"),
    },
    "Registry": {
        "models": Command("models", "", "list the versions of a registered model"),
        "promote": Command("promote", "", "make a version the champion, unless it is worse"),
        "rollback": Command("rollback", "", "make the previous champion the champion again"),
    },
    "Storage and tracking": {
        "list": Command("list_", "[KIND]", "list recipes, spaces, methods, data sets and more"),
        "ui": Command("ui", "", "browse runs, figures and models in the MLflow UI"),
        "clean": Command("clean", "", "list (--yes: delete) unfinished work"),
    },
    "Machines without Ray": {
        "job": Command("job", "RECIPE", "write a recipe's trainings to a file"),
        "import": Command("import_", "OUT", "import what a machine without Ray trained"),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
OBJECTS_BETWEEN_COLLECTIONS = 10_000
"""Python's 700 make it look again and again through what imports have made, a fifth of the CPU time of `models`."""
ABOUT = 'Train, calibrate, promote and serve image classifiers that can answer "unknown".'
USAGE, VERSION = ("--help", "-h", "help"), "--version"
RESUMABLE = ("run", "sweep", "reproduce")
NO_TRAINING = ("--dry-run", "--draw", "--jobs", "--import-from")
"""Options of these with which they train nothing."""
KEPT = "earlier decisions and registered versions are kept, `proser models` lists them"


def main() -> int:
    """Entry point: 0 clean, 1 finished with failed trials, skipped images or a refused promotion, 2 bad input, 130
    interrupted, 143 terminated."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    bound_threads()
    name, *arguments = sys.argv[1:] or [""]
    if name in ("", *USAGE, VERSION):
        return exit_code_of(lambda: _tell(name))
    if name in GROUPS[USING]:  # threads of the network that wait must not keep those that decode from their work
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    options = {word.partition("=")[0].replace("_", "-") for word in arguments}
    trains = name in RESUMABLE and options.isdisjoint(NO_TRAINING)
    return exit_code_of(lambda: _call(name, arguments), GOES_ON if trains else "")


def _call(name: str, arguments: list[str]) -> int:
    if name not in COMMANDS:
        raise ConfigError(unknown_name("command", name, [*COMMANDS, *USAGE, VERSION]))
    with terminated_by_signals(), tracking_errors(KEPT):
        module = importlib.import_module(f"pipelines.commands.{COMMANDS[name].module}")
        return int(module.main(arguments))


def _tell(asked: str) -> int:
    """The version or the usage; exit code 2 where no command was given."""
    print(f"proser {version('proser')}" if asked == VERSION else _usage())
    return 0 if asked else 2


def _usage() -> str:
    parts = ["usage: proser COMMAND ...", ABOUT]
    for title, commands in GROUPS.items():
        lines = [f"  {f'{name} {command.arguments}':<24}{command.summary}" for name, command in commands.items()]
        parts.append("\n".join([f"{title}:", *lines]))
    more = "`proser COMMAND --help` explains its options, `proser --version` the version."
    recipes = fill(f"Recipes: {', '.join(RECIPES)}", 80, subsequent_indent="  ", break_on_hyphens=False)
    return "\n\n".join([*parts, f"{more}\n{recipes}\n"])


if __name__ == "__main__":
    sys.exit(main())
