"""`python docs/screenshots.py FOLDER PREFIX`: pages of the MLflow UI over FOLDER/mlflow.db, as the documents show them.

It writes PREFIX_runs.png, the page that `proser ui` opens, and PREFIX_registry.png, the newest registered model, by
Chromium without a window. MLflow's Assistant, which opens beside the first page that a browser ever sees of a server
on this machine, is closed in the pictures, as it is for good once somebody has closed it.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlflow import MlflowClient

WIDTH, HEIGHT = 1700, 900  # pixels
PATIENCE_S = 20  # for a page to load what it shows, in the browser's own time
SEEN = {"mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": True}  # kept by a browser after a first page of MLflow 3.17.2


def main(folder: str, prefix: str) -> int:
    """Exit code 2 where there is no Chromium."""
    if find_browser() is None:
        print("no chromium is on PATH; install it, for example Debian's package chromium", file=sys.stderr)
        return 2
    for path in take(Path(folder), prefix, port=5055):
        print(path)
    return 0


def take(folder: Path, prefix: str, port: int) -> dict[Path, str]:
    """The pictures that were written, with the HTML of their pages."""
    browser = find_browser()
    assert browser is not None
    command = [sys.executable, "-m", "pipelines.cli", "ui", "--port", str(port)]
    with served(command, folder) as runs:
        pages = {"runs": runs, "registry": registry_of(runs, newest_model(folder))}
        paths = {Path(f"{prefix}_{name}.png").absolute(): address for name, address in pages.items()}
        return {path: browse(browser, address, path) for path, address in paths.items()}


def find_browser() -> str | None:
    """The path of Chromium or Chrome."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def served(command: list[str], folder: Path) -> Iterator[str]:
    """The address that `proser ui` prints, while it serves the database of `folder`."""
    environment = os.environ | {
        "PYTHONUNBUFFERED": "1",
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder.resolve()}/mlflow.db",
    }
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield next(line for line in process.stdout if line.startswith("http")).split()[0]
        finally:
            process.terminate()


def newest_model(folder: Path) -> str:
    """The name of the registered model that got a version last. Raises ValueError where there is none."""
    models = MlflowClient(f"sqlite:///{folder.resolve()}/mlflow.db").search_registered_models()
    return max(models, key=lambda model: model.last_updated_timestamp).name


def registry_of(runs: str, model: str) -> str:
    """The address of a registered model on the server of the runs."""
    return runs.partition("#")[0] + f"#/models/{model}?workflowType=machine_learning"


def browse(browser: str, address: str, picture: Path) -> str:
    """The HTML of a page that has loaded, and a picture of it."""
    shape = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}")
    wanted = ("--dump-dom", f"--screenshot={picture}", f"--virtual-time-budget={1000 * PATIENCE_S}")
    with tempfile.TemporaryDirectory() as folder:
        remembering = ("--disable-features=DisableLoadExtensionCommandLineSwitch", f"--load-extension={folder}")
        write_extension(Path(folder))
        command = [browser, *shape, *wanted, *remembering, address]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def write_extension(folder: Path) -> None:
    """An extension of Chromium by which each page finds SEEN in its browser's storage."""
    scripts = [{"matches": ["http://127.0.0.1/*"], "js": ["seen.js"], "run_at": "document_start"}]
    manifest = {"manifest_version": 3, "name": "seen before", "version": "1", "content_scripts": scripts}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    lines = (f"localStorage.setItem({key!r}, {json.dumps(value)!r});" for key, value in SEEN.items())
    (folder / "seen.js").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
