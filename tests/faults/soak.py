"""An hour under load: a server whose alias moves, and a sweep at the same time. Memory and handles must stay flat."""

import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
from encoded_images import encode
from lab import Lab
from mlflow import MlflowClient
from ray_nodes import running
from served_models import ask
from sweeps import SMALL, BrokenError, Sweep, require

from pipelines.ports import free_ports
from pipelines.tracking.models import load
from proser_core.data.readers import digits

MODEL, ALIAS = "soaked", "live"
MANY = '''"""More points than an hour trains."""

from ray import tune


def param_space():
    betas = [round(0.001 * step, 3) for step in range(1, 2001)]
    return {"finetune": {"beta": tune.grid_search(betas)}}
'''
CLIENTS, PAUSE_S = 4, 0.05
MOVE_EVERY_S, LOOK_EVERY_S = 20.0, 10.0
WARM = 0.2  # of the time, after which nothing may grow any more
GROWTH, LEAST_MIB, HANDLES = 0.15, 16, 16  # of the memory, and at least so much; file handles more
NAMES = {
    "serve models:": "proser serve",
    "sweep digits": "proser sweep",
    "ray::ServeReplica": "replica",
    "ray::ServeController": "Serve's controller",
    "ray::ProxyActor": "Serve's proxy",
    "raylet/raylet": "raylet",
    "gcs/gcs_server": "Ray's control store",
}


@dataclass
class Look:
    """MiB and file handles of each process, called by its name and its command."""

    at: float
    held: dict[str, tuple[float, int]]


@dataclass
class Load:
    """What clients asked and got."""

    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0


def soak(lab: Lab, minutes: float) -> int:
    """Print what was asked, and what each process held at the start, in the middle and at the end; exit code 1 where
    an answer was wrong, or a process grew after it was warm."""
    folder = lab.root / "soak"
    folder.mkdir()
    os.environ["MLFLOW_TRACKING_URI"] = uri = f"sqlite:///{folder / 'mlflow.db'}"
    os.environ["RAY_TMPDIR"] = str(folder)
    for seed in ("0", "1"):
        _train(folder, seed)
    client = MlflowClient(uri)
    client.set_registered_model_alias(MODEL, ALIAS, "1")
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "pipelines.cli", "serve", f"models:/{MODEL}@{ALIAS}", "--port", str(port)]
    address, load_ = f"http://127.0.0.1:{port}", Load()
    with ExitStack() as stack:
        stack.enter_context(running(command, dict(os.environ), folder / "serve.log", f"{address}/health", cwd=folder))
        sweep = stack.enter_context(lab.sweep(space=MANY, environment={"MLFLOW_TRACKING_URI": uri}))
        sweep.begin()
        sweep.until_epochs(4)
        stack.enter_context(_clients(address, load_))
        looks, moves = _watch((folder, sweep.folder), client, sweep, 60 * minutes)
        trained = len(list(sweep.storage.glob("trials/*/manifest.json")))
        sweep.interrupt()
        sweep.ended(130)
    print(f"\n{minutes:g} minutes: {sum(load_.answers.values())} requests of one image, by version and status:")
    print(f"  {dict(sorted(load_.answers.items()))}; the slowest took {load_.slowest_s:.2f} s")
    print(f"  the alias moved {moves} times; the sweep trained {trained} networks meanwhile")
    print(f"\n{_table(looks)}")
    broken = [*load_.wrong[:10], *_grown(looks)]
    for line in broken:
        print(f"BROKEN: {line}")
    return 1 if broken else 0


def _train(folder: Path, seed: str) -> None:
    """Register a version."""
    command = [sys.executable, "-m", "pipelines.cli", "run", "digits", *SMALL, "--seed", seed, "--space", ""]
    command += ["--model-name", MODEL, "--storage", str(folder / "storage")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    require(done.returncode == 0, f"no version to serve: {done.stderr[-300:]}")


@contextmanager
def _clients(address: str, load_: Load) -> Iterator[None]:
    """Clients that ask one after the other, and compare each answer with that of the library."""
    pixels = digits.read("test", 8).images[:100]
    files = [encode(image) for image in pixels]
    expected = {number: load(f"models:/{MODEL}/{number}").classifier.predict(pixels) for number in ("1", "2")}
    scores = {number: found.unknown_scores for number, found in expected.items()}
    stop, lock = threading.Event(), threading.Lock()

    def work(draws: random.Random) -> None:
        while not stop.wait(PAUSE_S):
            which, began = draws.randrange(len(files)), time.monotonic()
            try:
                status, answer = ask(f"{address}/predict", files[which], "image/png")
                version = answer.get("version", "")
            except Exception as error:  # of the network: it counts, and the load goes on
                status, answer, version = type(error).__name__, {}, ""
            with lock:
                load_.answers[f"{version} {status}"] += 1
                load_.slowest_s = max(load_.slowest_s, time.monotonic() - began)
                if status != 200:
                    load_.wrong.append(f"status {status} {str(answer)[:200]}")
                elif abs(answer["predictions"][0]["unknown_score"] - scores[version][which]) > 1e-3:
                    load_.wrong.append(f"image {which} of version {version}: {answer['predictions'][0]}")

    threads = [threading.Thread(target=work, args=(random.Random(number),)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _watch(folders: tuple[Path, Path], client: MlflowClient, sweep: Sweep, seconds: float) -> tuple[list[Look], int]:
    """Look at all processes until the time is over, and move the alias to and fro."""
    began, looks, versions, moves = time.monotonic(), list[Look](), itertools.cycle("21"), 0
    while (now := time.monotonic() - began) < seconds:
        if sweep.process.poll() is not None:
            raise BrokenError(f"the sweep ended after {now:.0f} s: {sweep.complained()[-300:]}")
        if now >= moves * MOVE_EVERY_S:
            client.set_registered_model_alias(MODEL, ALIAS, next(versions))
            moves += 1
        looks.append(Look(now, _held(folders)))
        if len(looks) % 30 == 1:
            print(f"  {now:.0f} s: {looks[-1].held}", flush=True)
        time.sleep(LOOK_EVERY_S)
    return looks, moves


def _held(folders: tuple[Path, Path]) -> dict[str, tuple[float, int]]:
    """Of the processes that are there from the beginning to the end; the workers of trials come and go."""
    held = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            line = " ".join(process.cmdline())
            name = next((name for part, name in NAMES.items() if part in line), "")
            owner = next((at for at, folder in enumerate(folders) if str(folder) in f"{line} {process.cwd()}"), None)
            if name and owner is not None:
                key = (
                    name
                    if name.startswith(("proser", "replica", "Serve"))
                    else f"{name} of {('serve', 'sweep')[owner]}"
                )
                held[key] = (process.memory_info().rss / 2**20, process.num_fds())
    return held


def _medians(looks: list[Look], begin: float, end: float) -> dict[str, tuple[float, float]]:
    """MiB and handles of each process in a part of the time, of those that were there in all of it."""
    chosen = looks[int(begin * len(looks)) : max(int(end * len(looks)), int(begin * len(looks)) + 1)]
    names = set.intersection(*(set(look.held) for look in chosen))
    return {
        name: (
            float(np.median([look.held[name][0] for look in chosen])),
            float(np.median([look.held[name][1] for look in chosen])),
        )
        for name in sorted(names)
    }


def _table(looks: list[Look]) -> str:
    parts = [
        _medians(looks, 0, 0.02),
        _medians(looks, WARM, WARM + 0.1),
        _medians(looks, 0.5, 0.6),
        _medians(looks, 0.9, 1),
    ]
    rows = ["| process | MiB: start, warm, middle, end | handles: start, warm, middle, end |", "| --- | ---: | ---: |"]
    for name in parts[-1]:
        memory, handles = (
            ", ".join(f"{part[name][kind]:.0f}" if name in part else "-" for part in parts) for kind in (0, 1)
        )
        rows.append(f"| {name} | {memory} | {handles} |")
    return "\n".join(rows)


def _grown(looks: list[Look]) -> list[str]:
    """Processes that hold more at the end than when they were warm."""
    warm, end = _medians(looks, WARM, WARM + 0.1), _medians(looks, 0.9, 1)
    lines = [f"{name} is gone" for name in warm.keys() - end.keys()]
    for name in warm.keys() & end.keys():
        (was, had), (now, has) = warm[name], end[name]
        if now - was > max(LEAST_MIB, GROWTH * was):  # Ray's control store keeps 30 kB of each training that ended
            lines.append(f"{name} grew from {was:.0f} to {now:.0f} MiB")
        if has > had + HANDLES:
            lines.append(f"{name} grew from {had:.0f} to {has:.0f} handles")
    return lines
