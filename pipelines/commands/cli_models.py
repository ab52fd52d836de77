"""Commands on models that are there: the command line's second half (`proser COMMAND --help`)."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from pipelines.console import console
from proser_core.errors import ConfigError

Command = Callable[[list[str]], int]


@dataclass(frozen=True)
class PredictArguments:
    """Classify images: files, folders, patterns such as 'photos/*.jpg', Parquet files. Memory does not grow with
    their number; one that cannot be decoded is named and left out, and the exit code is then 1."""

    model: tyro.conf.Positional[str]
    """models:/NAME@ALIAS, models:/NAME/VERSION, or the folder of a classifier."""
    paths: tyro.conf.Positional[tuple[str, ...]]
    """Images."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """File for a row an image, ending in .parquet, .csv or .jsonl."""
    contact_sheet: Path | None = None
    """Picture (.png, .pdf, .svg) of the 40 most unknown images."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the network runs."""
    address: str = ""
    """Ray cluster whose machines share the work, `auto` or host:port; all must see the paths."""
    workers: int = 0
    """Processes on that cluster; 0 is one for each of its CPUs, or of its GPUs with `--device cuda`."""


def predict_command(arguments: list[str]) -> int:
    """`proser predict MODEL PATH...`."""
    parsed = tyro.cli(PredictArguments, prog="proser predict", args=arguments)
    from pipelines.inference.predicting import PredictRequest, predict

    return predict(PredictRequest(**vars(parsed)), console())


@dataclass(frozen=True)
class ServeArguments:
    """Serve a model over HTTP: POST one image file, or several in JSON, to /predict. Requests that come together are
    classified together; where MODEL is an alias, the version that it moves to is served without a pause."""

    model: tyro.conf.Positional[str]
    """models:/NAME@ALIAS, models:/NAME/VERSION, or the folder of a classifier."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 is every one that this machine has. Nobody is asked for a password."""
    port: int = 8000
    """Port to listen on."""
    replicas: int = 1
    """Processes that classify, each with a CPU, or a GPU with `--device cuda`."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the network runs."""
    address: str = ""
    """Ray cluster to serve on, `auto` or host:port; empty starts Ray on this machine."""
    max_images: int = 64
    """Images of one request, and that the network takes at a time."""
    max_megabytes: float = 16.0
    """Length of a request, in 10^6 bytes."""
    max_megapixels: float = 50.0
    """Size of the images of one request together, in 10^6 pixels."""
    max_waiting: int = 128
    """Requests that a replica works on at a time, and that wait for a replica besides; more get a 503."""
    reload_pause: float = 5.0
    """Seconds between two looks at the alias; 0 keeps the version that there is."""


def serve_command(arguments: list[str]) -> int:
    """`proser serve MODEL`."""
    parsed = vars(tyro.cli(ServeArguments, prog="proser serve", args=arguments))
    from pipelines.serving.limits import Limits
    from pipelines.serving.server import ServeRequest, serve_model

    limits = Limits(**{name: parsed.pop(name) for name in Limits.__dataclass_fields__})
    return serve_model(ServeRequest(**parsed, limits=limits), console())


@dataclass(frozen=True)
class PromoteArguments:
    """Make a version the champion, where it is not worse than the one there is: macro-F1, AUC and closed-set
    accuracy on the same validation images and development unknowns, by the paired bootstrap, and its known rate.
    Exit code 1: it was refused. Every decision is a run in MLflow."""

    version: str = ""
    """Version to promote; without it, the one with the alias `candidate`."""
    best_of: str = ""
    """Name or id of a sweep's run: its best trial on development data is registered, and is the version to promote."""
    split_index: int | None = None
    """Class split of that trial; without it, the sweep's first."""
    storage: Path = Path("proser-storage")
    """Storage of that sweep, a folder."""
    alias: str = "champion"
    """Alias that it is to have."""
    tolerance: float = 0.02
    """How much of a metric, a fraction, the candidate may lose: the lower end of the 95 % interval decides."""
    force: bool = False
    """Promote it against objections, or without a comparison; recorded as such."""
    model_name: str = "proser"
    """Registered model."""


@dataclass(frozen=True)
class RollbackArguments:
    """Give the alias back to the version that had it before the last promotion."""

    alias: str = "champion"
    """Alias that goes back."""
    model_name: str = "proser"
    """Registered model."""


@dataclass(frozen=True)
class ModelsArguments:
    """List the versions of a registered model: aliases, metrics on validation and development images, age."""

    model_name: str = "proser"
    """Registered model."""


def promote_command(arguments: list[str]) -> int:
    """`proser promote`."""
    parsed = tyro.cli(PromoteArguments, prog="proser promote", args=arguments)
    from pipelines.workflow.promotion import PromoteRequest, promote

    version = parsed.version
    PromoteRequest(parsed.model_name, version, parsed.alias, parsed.tolerance, parsed.force).check()
    if parsed.best_of:
        if version:
            raise ConfigError("--version and --best-of name two candidates; give one of them")
        from pipelines.workflow.best_of import register_best

        version = register_best(parsed.best_of, parsed.storage, parsed.split_index, parsed.model_name).version
    request = PromoteRequest(parsed.model_name, version, parsed.alias, parsed.tolerance, parsed.force)
    return promote(request, console())


def rollback_command(arguments: list[str]) -> int:
    """`proser rollback`."""
    parsed = tyro.cli(RollbackArguments, prog="proser rollback", args=arguments)
    from pipelines.workflow.promotion import rollback

    return rollback(parsed.model_name, parsed.alias, console())


def models_command(arguments: list[str]) -> int:
    """`proser models`."""
    parsed = tyro.cli(ModelsArguments, prog="proser models", args=arguments)
    from pipelines.commands.model_list import print_models

    print_models(parsed.model_name, console())
    return 0


@dataclass(frozen=True)
class CalibrateArguments:
    """Fit a new bias to known images of your own, and register it as a new version; nothing is trained."""

    model: tyro.conf.Positional[str]
    """models:/NAME@ALIAS or models:/NAME/VERSION."""
    data: Path
    """Folder of images of known classes: DATA/CLASS/*, or DATA/* where nothing is said of their classes."""
    target_rate: float = 0.95
    """Share of them that is to stay known."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the network runs."""


@dataclass(frozen=True)
class EvaluateArguments:
    """All metrics of a model on labelled images: DATA/CLASS/*. Folders that are not named after a class that the
    model knows are counted as unknown."""

    model: tyro.conf.Positional[str]
    """models:/NAME@ALIAS, models:/NAME/VERSION, or the folder of a classifier."""
    data: Path
    """Folder with a folder of images for each class."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """File (.json) for the metrics."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the network runs."""


@dataclass(frozen=True)
class DriftArguments:
    """Compare new, unlabelled images with the validation images of a model's training: the share that it calls
    unknown, and the distribution of their scores."""

    model: tyro.conf.Positional[str]
    """models:/NAME@ALIAS, models:/NAME/VERSION, or the folder of a classifier."""
    paths: tyro.conf.Positional[tuple[str, ...]]
    """Images: files, folders, patterns, Parquet files."""
    figure: Path | None = None
    """File for both distributions as a picture (.png, .pdf, .svg)."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the network runs."""


def calibrate_command(arguments: list[str]) -> int:
    """`proser calibrate MODEL --data DIR`."""
    parsed = tyro.cli(CalibrateArguments, prog="proser calibrate", args=arguments)
    from pipelines.inference.recalibration import CalibrateRequest, calibrate_model

    return calibrate_model(CalibrateRequest(**vars(parsed)), console())


def evaluate_command(arguments: list[str]) -> int:
    """`proser evaluate MODEL --data DIR`."""
    parsed = tyro.cli(EvaluateArguments, prog="proser evaluate", args=arguments)
    from pipelines.inference.evaluating import evaluate_model

    return evaluate_model(parsed.model, parsed.data, parsed.output, parsed.device, console())


def drift_command(arguments: list[str]) -> int:
    """`proser drift MODEL PATH...`."""
    parsed = tyro.cli(DriftArguments, prog="proser drift", args=arguments)
    from pipelines.inference.drift import drift

    return drift(parsed.model, parsed.paths, parsed.figure, parsed.device, console())


def _tracked(command: Command) -> Command:
    """With MLflow's own errors as one line."""

    def run(arguments: list[str]) -> int:
        from pipelines.tracking.server import tracking_errors

        with tracking_errors("what was decided or registered before is kept, `proser models` shows it"):
            return command(arguments)

    return run


COMMANDS: dict[str, Command] = {
    "predict": _tracked(predict_command),
    "serve": _tracked(serve_command),
    "models": _tracked(models_command),
    "promote": _tracked(promote_command),
    "rollback": _tracked(rollback_command),
    "calibrate": _tracked(calibrate_command),
    "evaluate": _tracked(evaluate_command),
    "drift": _tracked(drift_command),
}
