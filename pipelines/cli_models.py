"""Commands on models that are there: the command line's second half (`proser COMMAND --help`)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from pipelines.console import console

MODEL = "models:/proser@champion"


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
    from pipelines.predicting import PredictRequest, predict

    return predict(PredictRequest(**vars(parsed)), console())
