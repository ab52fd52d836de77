"""Run benchmarks, print Markdown tables, and write them as JSON.

    python -m benchmarks [NAME ...]

Without a name, the usual ones run.
"""

import argparse
import importlib
import json
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class Benchmark(NamedTuple):
    """A module with `run(settings) -> Report`, and its line of the help text.

    Where it has `check(settings)`, that raises ConfigError for what cannot be measured here.
    """

    module: str
    summary: str


USUAL = {
    "step": Benchmark("core.step", "fine-tune step against the authors' released form; operations and host reads"),
    "epoch": Benchmark("core.epoch", "fine-tune epoch as it is run, against the released form as it is run"),
    "peak": Benchmark("core.peak", "FLOP/s of a step against the best bf16 convolution; time by operation"),
    "augmentation": Benchmark("core.augmentation", "epoch of augmented batches against torchvision's transforms"),
    "evaluation": Benchmark("core.evaluation", "AUROC of five settings against scikit-learn and NumPy"),
    "scaling": Benchmark("core.scaling", "two processes of one thread against one process of two"),
    "growth": Benchmark("core.growth", "step and data against the number of classes, dummies and images"),
    "cuda": Benchmark("core.cuda", "step on a GPU: CUDA graph, eager, released form"),
    "startup": Benchmark("workflow.startup", "CPU seconds of help texts and lists of `proser`"),
}
BY_NAME = {
    "gpu_trials": Benchmark("core.gpu_trials", "25 points, in turn and side by side; needs --device cuda, --data-dir"),
    "cached": Benchmark("workflow.cached", "`proser run digits` when all is finished; trains it first"),
    "streaming": Benchmark("workflow.streaming", "images decoded by Ray Data against images in memory"),
    "sweep_overhead": Benchmark(
        "workflow.sweep_overhead", "sweep of 26 trainings against a bare pool; memory of images"
    ),
    "many_trials": Benchmark("workflow.many_trials", "sweeps of 100 to 2,000 trials whose training is a sleep"),
    "serving": Benchmark("workflow.serving", "`proser serve` against `mlflow models serve` under the same load"),
}
"""Slow ones, or ones that need more than this repository."""
BENCHMARKS = USUAL | BY_NAME
OTHER_COMMANDS = """other commands, each with --help:
  python -m benchmarks.document JSON FILE   put the tables of a JSON file into a document
  python -m benchmarks.compare OUT ...      compare the metrics of trainings over class splits
  python -m benchmarks.gpu_kit JOBS         run everything that needs a GPU, in pieces that resume"""


def main(arguments: list[str] | None = None) -> None:
    """Run the named benchmarks, or the usual ones; exit code 2 where one cannot run here, before any does."""
    options = _parser().parse_args(arguments)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is loaded, below
    from proser_core.errors import ProserError

    try:
        _run(options)
    except ProserError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        sys.exit(2)


def _run(options: argparse.Namespace) -> None:
    """What was measured is written after each benchmark, so that a failure of the next one loses nothing."""
    import torch

    from benchmarks.harness.environment import environment
    from benchmarks.harness.settings import Settings
    from benchmarks.harness.tables import Target, targets_table
    from proser_core.data.data_sets import open_data_set
    from proser_core.errors import ConfigError
    from proser_core.processor import keep_freed_memory

    if options.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("--device got cuda, and torch sees no GPU here; give --device cpu")
    if options.data_dir and open_data_set("cifar100", options.data_dir).missing:
        raise ConfigError(f"--data-dir got {options.data_dir}, which has no CIFAR100; give its folder, or omit it")
    if options.json.is_dir():
        raise ConfigError(f"--json got {options.json}, which is a folder; give a file")
    if not options.json.absolute().parent.is_dir():
        raise ConfigError(f"--json got {options.json}, whose folder does not exist; make it, or give another file")
    keep_freed_memory()  # as training does
    settings = Settings(options.quick, options.device, options.data_dir)
    modules = _modules(options.names or list(USUAL))
    for module in modules.values():
        getattr(module, "check", lambda settings: None)(settings)
    about: dict[str, Any] = environment() | {"quick": options.quick, "device": options.device}
    print("\n".join(f"- {name}: {value}" for name, value in about.items()), flush=True)
    results: dict[str, Any] = {}
    targets: list[Target] = []
    for name, module in modules.items():
        start = time.perf_counter()
        report = module.run(settings)
        seconds = time.perf_counter() - start
        print(f"\n## {name} ({seconds:.0f} s)\n", *(t.markdown() for t in report.tables), sep="\n", flush=True)
        results[name] = report.to_json() | {"seconds": seconds}
        targets += report.targets
        written = json.dumps({"environment": about, "benchmarks": results}, indent=1)
        options.json.write_text(written + "\n", encoding="utf-8")
    if targets:
        print("\n## targets\n", targets_table(targets).markdown(), sep="\n")
    print(f"written to {options.json}")


def _modules(names: list[str]) -> dict[str, ModuleType]:
    """The module of each benchmark. Raises ConfigError for a name that is none."""
    from proser_core.naming import look_up

    found = {name: look_up("benchmark", name, BENCHMARKS) for name in names}
    return {name: importlib.import_module(f"benchmarks.{benchmark.module}") for name, benchmark in found.items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__.splitlines()[0],
        epilog=f"usual:\n{_lines(USUAL)}\n\nonly by name:\n{_lines(BY_NAME)}\n\n{OTHER_COMMANDS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="one or more of those below (default: the usual ones)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that they run, measures nothing")
    parser.add_argument("--json", type=Path, default=Path("benchmark.json"), metavar="FILE", help="what to write")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--data-dir", type=Path, help="where CIFAR100 lies; without it, random images")
    return parser


def _lines(benchmarks: dict[str, Benchmark]) -> str:
    return "\n".join(f"  {name:<16}{benchmark.summary}" for name, benchmark in benchmarks.items())


if __name__ == "__main__":
    main()
