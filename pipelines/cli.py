"""The command line. `proser COMMAND --help` explains every field with its default and source."""

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import tyro

from pipelines.commands import cli_models, cli_reproduce
from pipelines.console import console
from pipelines.recipes import RECIPES, headline, schedule_named, with_schedule
from pipelines.storage.open import DEFAULT_STORAGE, check_folder, parse_storage
from proser_core.config import Recipe
from proser_core.errors import GOES_ON, ConfigError, exit_code_of
from proser_core.naming import look_up
from tune_spaces import check_name, space_names

USAGE = """usage: proser COMMAND ...

  run RECIPE   images to a calibrated open-set classifier in the model registry
  sweep RECIPE SPACE ...
               search spaces over one or more class splits, with a plan before and figures after
  reproduce NAME ...
               the paper's tables over published class splits, measured beside published
  list         the recipes, pretraining schedules, search spaces and data sets there are
  job RECIPE   write its trainings to a file, for a machine without Ray
  import OUT   take what such a machine trained into storage, tracking and registry
  predict MODEL PATH ...
               name the class of each image, or say that it is unknown
  serve MODEL  the same over HTTP
  models       the versions of a registered model
  promote      make a version the champion, where it is not worse than the one there is
  rollback     make the champion before it the champion again
  calibrate    a new version with a bias of your own known images, without training
  evaluate     all metrics on labelled images of your own
  drift        whether new images still look like the validation images of the training
  clean        list, and with --yes remove, what a storage holds in vain
  ui           browse runs, figures and models in the MLflow UI

`proser run RECIPE --help` explains every field, `proser --version` prints the version. Recipes: {recipes}
"""


@dataclass(frozen=True)
class RunArguments:
    """Run a recipe through every stage; what is finished and unchanged is skipped."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    data_dir: Path | None = None
    """Directory with the data sets: Parquet as on the Hugging Face Hub (DIR/cifar100/*.parquet),
    torchvision's own folders, or for `folder` images of your own (DIR/CLASS/*, or DIR/train/CLASS/*
    and beside it val/ and test/)."""
    storage: str = str(DEFAULT_STORAGE)
    """Directory, or URI such as s3://bucket/prefix, for prepared data, weights, logits and figures; all machines
    must see it."""
    pretrained: Path | None = None
    """A closed-set checkpoint of your own, instead of pretraining: safetensors or a state_dict."""
    pretraining: str = ""
    """Pretraining schedule instead of the recipe's own: short, long, strong or fast (see `proser
    list`). It fills every --pretrain field; those given beside it come on top."""
    cluster_file: Path | None = None
    """File that launched an autoscaling cluster, for what it can grow to; on the head node of `ray up` it is found."""
    draw: Path | None = None
    """Write the graph of the stages to this file (.svg, .png, .pdf or .dot) and stop."""


@dataclass(frozen=True)
class SweepArguments:
    """Train every point of one or more search spaces on one or more class splits; what is finished is
    skipped, and the same command again goes on where it was stopped."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    split_indices: str = ""
    """Class splits, such as 0-4 or 0,2,5; without it, the recipe's own data.split-index."""
    max_concurrent: int = 0
    """Trainings at a time, as --cluster.max-concurrent; 0 is as many as the resources allow."""
    num_samples: int = 32
    """Points that are drawn from a search space with random draws; those that fall behind are stopped early."""
    max_hours: float = 0.0
    """Budget of fine-tuning in hours, 0 for no limit; the same command again goes on with as much again."""
    dry_run: bool = False
    """Print the plan, with the time that it takes, and stop."""
    resume: bool = False
    """Only go on with a sweep that was begun in this storage; refuse to begin one."""
    data_dir: Path | None = None
    """Directory with the data sets."""
    storage: str = str(DEFAULT_STORAGE)
    """Directory, or URI such as s3://bucket/prefix, for prepared data, weights, logits and figures; all machines
    must see it."""
    cluster_file: Path | None = None
    """File that launched an autoscaling cluster, for what it can grow to; on the head node of `ray up` it is found."""
    pretraining: str = ""
    """Pretraining schedule instead of the recipe's own (see `proser list`)."""


@dataclass(frozen=True)
class ListArguments:
    """The recipes, pretraining schedules, search spaces and data sets there are."""

    data_dir: Path | None = None
    """Directory in which data sets are looked for."""


@dataclass(frozen=True)
class JobArguments:
    """Write a recipe's trainings (control, its own point, its search space) to a file, for a machine
    that has only torch and the folder proser_core."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("JOB.json")
    """File to write."""
    data_dir: Path | None = None
    """Directory with the data sets; where it lies elsewhere on the other machine, edit the file."""
    with_task: bool = False
    """Prepare the images here and write them beside the file, so that no data set is needed there."""
    pretraining: str = ""
    """Pretraining schedule instead of the recipe's own (see `proser list`)."""
    storage: Path = DEFAULT_STORAGE
    """Directory in which `--with-task` finds or leaves the prepared images."""


@dataclass(frozen=True)
class ImportArguments:
    """Take what `python -m proser_core.job JOB.json OUT` trained into storage, tracking and registry."""

    out: tyro.conf.Positional[Path]
    """The folder OUT, copied whole."""
    storage: Path = DEFAULT_STORAGE
    """Directory for prepared data, weights, logits and figures."""


@dataclass(frozen=True)
class CleanArguments:
    """List what no run will ask for again: unfinished work, what Ray left, results of other code."""

    storage: Path = DEFAULT_STORAGE
    """Directory of the runs."""
    older_than: float = 7.0
    """Days in which nothing was written to a folder."""
    outdated: bool = False
    """Finished work of another version of the code too: it is never found again."""
    list_all: bool = False
    """Name every folder, not the first 20 alone."""
    yes: bool = False
    """Remove what is listed."""


@dataclass(frozen=True)
class UiArguments:
    """Serve the MLflow UI on this machine."""

    port: int = 5000
    """Port on 127.0.0.1."""


def run_command(arguments: list[str]) -> int:
    """`proser run RECIPE ...`."""
    if not arguments or arguments[0].startswith("-"):
        return _ask_for_recipe("run", arguments)
    recipe = _with_schedule(look_up("recipe", arguments[0], RECIPES)(), arguments[1:])
    parsed = tyro.cli(RunArguments, prog=f"proser run {arguments[0]}", default=RunArguments(recipe), args=arguments[1:])
    from pipelines.workflow.run import draw, run

    if parsed.draw is not None:
        draw(parsed.draw)
        return 0
    return run(
        parsed.recipe, parsed.data_dir, parse_storage(parsed.storage), parsed.pretrained, console(), parsed.cluster_file
    )


def sweep_command(arguments: list[str]) -> int:
    """`proser sweep RECIPE SPACE ...`."""
    if not arguments or arguments[0].startswith("-"):
        return _ask_for_recipe("sweep", arguments, f" SPACE [SPACE ...]\n\nSearch spaces: {', '.join(space_names())}")
    recipe = look_up("recipe", arguments[0], RECIPES)()
    spaces = tuple(dict.fromkeys(itertools.takewhile(lambda word: not word.startswith("-"), arguments[1:])))
    options = arguments[1 + len(spaces) :]
    parsed = tyro.cli(
        SweepArguments,
        prog=f"proser sweep {arguments[0]} SPACE [SPACE ...]",
        default=SweepArguments(_with_schedule(recipe, options)),
        args=options,
    )
    for space in spaces:
        check_name(space)
    if not spaces:
        raise ConfigError(f"no search space was given; need one or more of {', '.join(space_names())}")
    from pipelines.workflow.sweeping import SweepRequest, parse_indices, sweep

    recipe, cluster = parsed.recipe, parsed.recipe.cluster
    if parsed.max_concurrent:
        recipe = replace(recipe, cluster=replace(cluster, max_concurrent=parsed.max_concurrent))
    splits = parse_indices(parsed.split_indices) if parsed.split_indices else (recipe.data.split_index,)
    request = SweepRequest(
        recipe,
        spaces,
        splits,
        parsed.data_dir,
        parse_storage(parsed.storage),
        parsed.cluster_file,
        parsed.num_samples,
        parsed.max_hours,
        parsed.resume,
        parsed.dry_run,
    )
    return sweep(request, console())


def job_command(arguments: list[str]) -> int:
    """`proser job RECIPE ...`."""
    if not arguments or arguments[0].startswith("-"):
        return _ask_for_recipe("job", arguments)
    recipe = _with_schedule(look_up("recipe", arguments[0], RECIPES)(), arguments[1:])
    parsed = tyro.cli(JobArguments, prog=f"proser job {arguments[0]}", default=JobArguments(recipe), args=arguments[1:])
    from pipelines.workflow.offline_jobs import write_job

    write_job(parsed.recipe, parsed.data_dir, check_folder(parsed.storage), parsed.output, parsed.with_task, console())
    return 0


def import_command(arguments: list[str]) -> int:
    """`proser import OUT`."""
    parsed = tyro.cli(ImportArguments, prog="proser import", args=arguments)
    from pipelines.workflow.offline_jobs import import_job

    return import_job(parsed.out.resolve(), check_folder(parsed.storage), console())


def _with_schedule(recipe: Recipe, arguments: list[str]) -> Recipe:
    name = schedule_named(arguments)
    return with_schedule(recipe, name) if name else recipe


def list_command(arguments: list[str]) -> int:
    """`proser list`."""
    parsed = tyro.cli(ListArguments, prog="proser list", args=arguments)
    from pipelines.commands.listing import print_listing

    print_listing(parsed.data_dir, console())
    return 0


def clean_command(arguments: list[str]) -> int:
    """`proser clean`."""
    parsed = tyro.cli(CleanArguments, prog="proser clean", args=arguments)
    if not check_folder(parsed.storage).is_dir():
        raise ConfigError(f"--storage got {parsed.storage}, which is no folder; give the storage of a run")
    from pipelines.commands.clean import clean

    return clean(parsed.storage, parsed.older_than, parsed.outdated, parsed.yes, console(), parsed.list_all)


def ui_command(arguments: list[str]) -> int:
    """`proser ui`: MLflow's own server over the database that `proser run` writes."""
    parsed = tyro.cli(UiArguments, prog="proser ui", args=arguments)
    from pipelines.ports import check_port
    from pipelines.tracking.server import connect, experiment_id, tracking_uri

    uri = tracking_uri()
    if uri.startswith("http"):
        print(f"the runs are on your tracking server: {uri}")
        return 0
    check_port(parsed.port)
    experiment = experiment_id(connect())
    print(f"http://127.0.0.1:{parsed.port}/#/experiments/{experiment}/runs  (Ctrl-C ends it)", flush=True)
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri, "--host", "127.0.0.1"]
    with contextlib.suppress(KeyboardInterrupt):
        return subprocess.call([*command, "--port", str(parsed.port), "--workers", "1"])
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "run": run_command,
    "sweep": sweep_command,
    "list": list_command,
    "job": job_command,
    "import": import_command,
    "clean": clean_command,
    "reproduce": cli_reproduce.reproduce_command,
    **cli_models.COMMANDS,
    "ui": ui_command,
}


def main() -> int:
    """Entry point: 0 clean, 1 finished with failed trials, 2 bad input, 130 interrupted."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"proser {version('proser')}")
        return 0
    if not arguments or arguments[0] in ("--help", "-h"):
        print(USAGE.format(recipes=", ".join(RECIPES)))
        return 0 if arguments else 2
    goes_on = GOES_ON if arguments[0] in ("run", "sweep", "reproduce", "import") else ""
    return exit_code_of(lambda: look_up("command", arguments[0], COMMANDS)(arguments[1:]), goes_on)


def _ask_for_recipe(command: str, arguments: list[str], more: str = "") -> int:
    names = "\n".join(f"  {name:<14} {headline(make)}" for name, make in RECIPES.items())
    print(f"usage: proser {command} RECIPE{more or ' [options]'}\n\nRecipes:\n{names}\n")
    print(f"`proser {command} RECIPE --help` explains every field.")
    return 0 if arguments in (["--help"], ["-h"]) else 2


if __name__ == "__main__":
    sys.exit(main())
