"""Options, checks and lines that the commands with a model share."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import tyro
from rich.console import Console

from pipelines.console import say
from proser_core.data.decoding import Failure
from proser_core.data.readers.image_files import Found
from proser_core.errors import ConfigError
from proser_core.titles import counted

Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    tyro.conf.arg(help="Device that runs the network; auto is a GPU if torch finds one here."),
]
ClusterDevice = Annotated[
    Literal["auto", "cpu", "cuda"],
    tyro.conf.arg(help="Device that runs the network; auto is a GPU if torch finds one here, cpu where Ray runs it."),
]
Model = Annotated[
    tyro.conf.Positional[str],
    tyro.conf.arg(metavar="MODEL", help="models:/NAME@ALIAS, models:/NAME/VERSION, or the folder of a classifier."),
]
ImagePaths = Annotated[
    tyro.conf.Positional[tuple[str, ...]],
    tyro.conf.arg(
        metavar="PATH ...",
        help="Images: files, folders, patterns such as 'photos/*.jpg', Parquet files.",
        help_behavior_hint="(required)",
    ),
]
MAX_LISTED = 10  # skipped images that the terminal names


def chosen_device(device: Device, console: Console, address: str = "") -> Literal["cpu", "cuda"]:
    """`cpu` or `cuda`; prints that it is the GPU where that was not asked for. `address` is of a Ray cluster that runs
    the network instead of this machine. Raises ConfigError for a GPU that torch does not find on this machine."""
    import torch  # not for --help

    if address or device == "cpu":
        return "cuda" if device == "cuda" else "cpu"
    if not torch.cuda.is_available():
        if device == "cuda":
            raise ConfigError("--device got cuda, and torch finds no GPU here; drop --device cuda, or fix the driver")
        return "cpu"
    if device == "auto":
        say(console, f"on the GPU, {torch.cuda.get_device_name()}; --device cpu uses the CPU")
    return "cuda"


def ignored_lines(found: Found) -> Iterator[str]:
    """One line where a walk found files that are no images."""
    if found.others:
        yield f"ignored: {counted(found.others, 'non-image file')}, the first is {found.first_other}"


def skipped_lines(failures: Sequence[Failure], count: int | None = None) -> Iterator[str]:
    """One line for each of the first of `count` images that were skipped, by default of all `failures`."""
    for failure in failures[:MAX_LISTED]:
        yield f"skipped: {failure.reason}"
    rest = (len(failures) if count is None else count) - MAX_LISTED
    if rest > 0:
        yield f"skipped: {rest} more"
