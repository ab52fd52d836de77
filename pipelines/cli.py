"""The command line: a table of commands, each a module of `pipelines.commands` that is imported when it is called."""

import importlib
import sys
from dataclasses import dataclass
from importlib.metadata import version

from pipelines.recipes import RECIPES
from pipelines.tracking.server import tracking_errors
from proser_core.errors import GOES_ON, exit_code_of
from proser_core.naming import look_up


@dataclass(frozen=True)
class Command:
    """What a user types and what it does, for the usage text. After an interrupt, one that `resumes` finds its finished
    work again. `module` is in `pipelines.commands` and has `main(arguments) -> exit code`."""

    typed: str
    summary: str
    module: str
    resumes: bool = False


COMMANDS = {
    command.typed.split()[0]: command
    for command in (
        Command("run RECIPE", "train on images and register a calibrated open-set classifier", "run", resumes=True),
        Command(
            "sweep RECIPE SPACE ...",
            "train every point of search spaces on one or more class splits: a plan first, figures at the end",
            "sweep",
            resumes=True,
        ),
        Command(
            "reproduce NAME ...",
            "the paper's tables over published class splits, measured next to published",
            "reproduce",
            resumes=True,
        ),
        Command("list", "list recipes, pretraining schedules, search spaces, methods and data sets", "list_"),
        Command("job RECIPE", "write a recipe's trainings to a file, for a machine without Ray", "job"),
        Command("import OUT", "import what that machine trained: storage, tracking, registry", "import_", resumes=True),
        Command("predict MODEL PATH ...", "name the class of each image, or say that it is unknown", "predict"),
        Command("serve MODEL", "predict over HTTP", "serve"),
        Command("models", "list the versions of a registered model", "models"),
        Command("promote", "make a version the champion, unless it is worse than the present one", "promote"),
        Command("rollback", "make the previous champion the champion again", "rollback"),
        Command("calibrate MODEL", "fit a new bias on your own known images, without training", "calibrate"),
        Command("evaluate MODEL", "all metrics on your own labelled images", "evaluate"),
        Command("drift MODEL PATH ...", "test whether new images still look like the validation images", "drift"),
        Command("clean", "list (with --yes: delete) artefacts that no run will reuse", "clean"),
        Command("ui", "browse runs, figures and models in the MLflow UI", "ui"),
    )
}
KEPT = "earlier decisions and registered versions are kept, `proser models` lists them"


def main() -> int:
    """Entry point: 0 clean, 1 finished with failed trials, 2 bad input, 130 interrupted."""
    name, *arguments = sys.argv[1:] or [""]
    if name in ("", "--help", "-h"):
        print(_usage())
        return 0 if name else 2
    if name == "--version":
        print(f"proser {version('proser')}")
        return 0
    resumes = name in COMMANDS and COMMANDS[name].resumes
    return exit_code_of(lambda: _call(look_up("command", name, COMMANDS), arguments), GOES_ON if resumes else "")


def _call(command: Command, arguments: list[str]) -> int:
    module = importlib.import_module(f"pipelines.commands.{command.module}")
    with tracking_errors(KEPT):
        return int(module.main(arguments))


def _usage() -> str:
    lines = ["usage: proser COMMAND ...\n"]
    for command in COMMANDS.values():
        typed = f"{command.typed:<12} " if len(command.typed) <= 12 else f"{command.typed}\n{'':15}"
        lines.append(f"  {typed}{command.summary}")
    lines.append("\n`proser COMMAND --help` explains every option, `proser --version` prints the version.")
    return "\n".join([*lines, f"Recipes: {', '.join(RECIPES)}\n"])


if __name__ == "__main__":
    sys.exit(main())
