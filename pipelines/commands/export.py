"""`proser export MODEL`: a classifier as one file that needs none of this code."""

import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console

from pipelines.commands.model_options import Model, skipped_lines
from pipelines.commands.parsing import parse
from pipelines.console import console, say
from pipelines.output_files import check_output, write_output
from proser_core.data.decoding import Failure
from proser_core.data.readers.image_files import check_paths
from proser_core.store.files import disk_full_errors
from proser_core.titles import counted

ONNX = ".onnx"
MOST_IMAGES = 256  # that a program is compared on


@dataclass(frozen=True)
class ExportRequest:
    """Write a model as one file that needs none of this code: from uint8 images to class, unknown score and
    probabilities. Normalisation, score, threshold and class names are in it. The file is compared with the model before
    it takes its place."""

    model: Model
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """Output file: FILE.pt2 is a program of torch.export; FILE.onnx, for ONNX Runtime, needs the packages onnx,
    onnxruntime and onnxscript."""
    images: tuple[str, ...] = ()
    """Images to compare on, as `proser predict` takes them: the first 256. Without them 64 random ones."""


def main(arguments: list[str]) -> int:
    """Export."""
    return export(parse(ExportRequest, "export", arguments), console())


def export(request: ExportRequest, console: Console) -> int:
    """Write the program where it decides as the model does; exit code 1 where images were skipped. Raises
    ProserError for a model that does not exist or has no such form, an output that cannot be written, packages or
    images that are missing."""
    from pipelines.tracking.models import load  # these load torch and mlflow: not for --help
    from proser_core.recognition.onnx_program import check_packages, export_onnx, load_onnx
    from proser_core.recognition.program import check_exportable, export_program, load_program
    from proser_core.recognition.program_check import TOLERANCE, check_program

    check_output(request.output, "--output", (".pt2", ONNX))
    if request.images:
        check_paths(request.images)
    if request.output.suffix == ONNX:
        check_packages()
    model = load(request.model)
    check_exportable(model.classifier)
    images, failures = _images(request, model.classifier.image_size)
    write, read = (export_onnx, load_onnx) if request.output.suffix == ONNX else (export_program, load_program)
    with tempfile.TemporaryDirectory() as folder, disk_full_errors(Path(folder)):
        path = Path(folder) / f"program{request.output.suffix}"
        write(model.classifier, path)
        found = check_program(model.classifier, read(path), images)
        write_output(request.output, path.read_bytes())
    size, kind = model.classifier.image_size, "" if request.images else "random "
    say(console, f"{model.title}: {len(model.classifier.class_names)} classes, and unknown")
    say(console, f"written: {request.output}  (images uint8[N, {size}, {size}, 3] to decisions)")
    say(
        console,
        f"compared on {counted(found.images, f'{kind}image')}, {found.unknown} of them unknown: scores differ by up to "
        f"{found.scores:.1g}, probabilities by {found.probabilities:.1g}; {TOLERANCE:g} is allowed",
    )
    for line in skipped_lines(failures):
        say(console, line)
    return 1 if failures else 0


def _images(request: ExportRequest, size: int) -> tuple[np.ndarray, list[Failure]]:
    """The images to compare on, uint8[N, size, size, 3]: those of the request, or random ones; and the skipped ones."""
    from pipelines.inference.predictions import read_images  # these load torch
    from proser_core.recognition.program_check import random_images

    if not request.images:
        return random_images(size), []
    images, failures = np.empty((0, size, size, 3), np.uint8), list[Failure]()
    with closing(read_images(request.images, size, lambda done: None)) as parts:
        for part in parts:
            failures += part.failures
            images = np.concatenate([images, part.images])[:MOST_IMAGES]
            if len(images) == MOST_IMAGES:
                break
    return images, failures
