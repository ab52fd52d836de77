"""`python -m benchmarks [NAME ...]`: runs benchmarks, prints Markdown tables and writes JSON."""

import argparse
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

USUAL = ("step", "epoch", "peak", "augmentation", "evaluation", "scaling", "growth", "cuda", "startup")
BY_NAME = ("compiling", "cached", "stacking", "streaming", "sweep_overhead", "many_trials", "gpu_trials", "serving")
"""Slow ones, which run only when they are named."""


def main(arguments: list[str] | None = None) -> None:
    """Run the named benchmarks, or all of the usual ones; exit code 2 where one cannot run here, before any does."""
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
    from benchmarks.environment import environment
    from benchmarks.settings import Settings
    from benchmarks.tables import Target, targets_table
    from proser_core.errors import ConfigError
    from proser_core.processor import keep_freed_memory

    if not options.json.absolute().parent.is_dir():
        raise ConfigError(f"--json got {options.json}, whose folder does not exist; make it, or give another file")
    keep_freed_memory()  # as training does
    settings = Settings(options.quick, options.device, options.data_dir)
    benchmarks = {name: importlib.import_module(f"benchmarks.{name}") for name in options.names or USUAL}
    for benchmark in benchmarks.values():
        getattr(benchmark, "check", lambda settings: None)(settings)
    about: dict[str, Any] = environment() | {"quick": options.quick, "device": options.device}
    print("\n".join(f"- {name}: {value}" for name, value in about.items()), flush=True)
    results: dict[str, Any] = {}
    targets: list[Target] = []
    for name, benchmark in benchmarks.items():
        start = time.perf_counter()
        report = benchmark.run(settings)
        seconds = time.perf_counter() - start
        print(f"\n## {name} ({seconds:.0f} s)\n", *(t.markdown() for t in report.tables), sep="\n", flush=True)
        results[name] = report.to_json() | {"seconds": seconds}
        targets += report.targets
        written = json.dumps({"environment": about, "benchmarks": results}, indent=1)
        options.json.write_text(written + "\n", encoding="utf-8")
    if targets:
        print("\n## targets\n", targets_table(targets).markdown(), sep="\n")
    print(f"written to {options.json}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = (*USUAL, *BY_NAME)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", choices=[*names, []], help=f"one or more of {', '.join(names)}"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that they run, measures nothing")
    parser.add_argument("--json", type=Path, default=Path("benchmark.json"), metavar="FILE")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--data-dir", type=Path, help="where CIFAR100 lies; without it, random images")
    return parser


if __name__ == "__main__":
    main()
