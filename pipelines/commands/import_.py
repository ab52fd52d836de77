"""`proser import OUT`: import what a machine without Ray trained."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pipelines.commands.parsing import parse
from pipelines.console import console
from pipelines.storage.option import DEFAULT_STORAGE
from pipelines.workflow.requests import StorageFolder


@dataclass(frozen=True)
class ImportRequest:
    """Copy what `python -m proser_core.job JOB.json OUT` trained to storage, tracking and registry."""

    out: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="OUT")]
    """Folder OUT, copied from that machine as a whole."""
    storage: Annotated[StorageFolder, tyro.conf.arg(help="Folder for prepared data, weights, logits and figures.")] = (
        DEFAULT_STORAGE
    )


def main(arguments: list[str]) -> int:
    """Import."""
    request = parse(ImportRequest, "import", arguments)
    from pipelines.workflow.offline_jobs import import_job  # it loads torch

    return import_job(request.out.resolve(), request.storage, console())
