"""Bad input through the command line: one clear line, exit code 2, no node asked for, and nothing left behind."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pipeline_runs import Proser
from waiting import PATIENCE_S

from pipelines.recipes import digits
from pipelines.tracking.deferred import TIMEOUT_VARIABLE
from proser_core.config import NetworkConfig
from proser_core.networks.nets import make_closed_set_net
from proser_core.networks.weights import save_weights


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_ray: None) -> Path:
    """An empty working directory in which the database would be made, and a cluster that must not be asked for."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


DIGITS = ["run", "digits"]
LARGE = "run digits --data.image-size 64 --network.backbone torchvision:resnet18"
LINES = {
    "clean --older-than nan": "--older-than got nan; need 0 or more days",
    "clean --older-than -5": "--older-than got -5.0; need 0 or more days",
    "run digits --storage ''": "--storage got an empty name",
    "run digits --storage file": "file cannot be written (File exists); give another --storage",
    "clean --storage ''": "--storage got an empty name",
    "export nowhere -o model.pt2": "got nowhere, and there is no such folder; need models:/NAME@ALIAS",
    "export proser@champion -o model.pt2": "there is no such folder; did you mean models:/proser@champion?",
    "export proser/3 -o model.pt2": "did you mean models:/proser/3?",
    "export proser -o model.pt2": "did you mean models:/proser@champion?",
    "export out/model -o model.pt2": "there is no such folder; need models:/NAME@ALIAS",
    "export models:/a@b -o model.bin": "need a file that ends in .pt2, .onnx",
    "export models:/a@b -o nowhere/model.pt2": "there is no folder nowhere",
    "export models:/a@b -o model.pt2 --images empty": "empty holds no image",
    "serve models:/a@b --host ''": "--host got an empty name",
    "sweep digits trade_off --split-indices 0-999999999": "ranges of at most 1,000",
    "sweep digits num_dummies --data.split-index 7 --split-indices 0-1": "--data.split-index got 7",
    "sweep digits num_dummies --space mixup_alpha": "name search spaces right after the recipe",
    "sweep digits num_dummies --model-name birds": "`proser promote --best-of SWEEP`",
    "sweep digits num_dummies --num-samples 3": "--num-samples got 3, and num_dummies is a grid",
    "sweep digits num_dummies --calibration.score auto --calibration.development noise": "whose images only",
    "run digits --stop-early --space ''": "stop_early is set and space is empty",
    "run digits --stop-early --cluster.num-workers 2": "num_workers is 2, set it to 1",
    "job digits --stop-early": "stop_early is set, and a machine without Ray",
    "--verison": "did you mean '--version'",
    "rum": "did you mean 'run'",
    "run digit": "did you mean 'digits'",
    "reproduce cifar-10": "did you mean 'cifar10'",
    "reproduce cifar10 --data-dir empty": "cifar10: cifar10 was not found",
    "reproduce closed-set --data-dir empty": "svhn: svhn was not",
    "reproduce figures cifar10": "give `proser reproduce cifar10` as another",
    "reproduce figures --data-dir empty": "mnist was not found",
    "reproduce figures --calibration.score KNN": "calibration.score is 'KNN', and the figures",
    "reproduce figures --calibration.mirror": "calibration.mirror is True, and the figures",
    "reproduce --draw x cifar10": "the names come first",
    "reproduce cifar10 --stop-early": "no option is called '--stop-early'",
    "reproduce cifar10 --methods OpenMx": "did you mean 'OpenMax'",
    "reproduce svhn --split-family cac": "SVHN takes one of neal",
    "reproduce cifar10 --split-indices 7 --data-dir empty": "has trials 0 to 4 of cifar10",
    "reproduce mnist-outliers --split-indices 0-1 --data-dir empty": "knows every class",
    "run cifar100-cpu": "--data-dir",
    "run cifar100-cpu --data-dir nowhere": "does not exist",
    "run cifar100-cpu --data-dir file": "the data directory file is a file",
    "run cifar100-cpu --data-dir empty": "is empty",
    "run digits --data-dir nowhere": "--data-dir got nowhere, which is not a folder; give one that exists, or omit it",
    "sweep digits trade_off --data-dir file": "--data-dir got file, which is not a folder",
    "run digits --finetune.num-dummies 0": "finetune.num_dummies is 0",
    "run digits --cluster.num-workers 1024 --finetune.batch-size 2048": "needs 1024 CPU in all",
    "run digits --cluster.gpus-per-worker 64": "GPU",
    "run digits --cluster.cpus-per-worker 1024": "needs 1024 CPU in all",
    "run digits --model-name a/b": "model_name is 'a/b'",
    "run digits --finetune.objective cross_entropy": "finetune.objective",
    "run digits --data.development digits": "data.development",
    "run digits --draw nowhere/graph.dot": "there is no folder nowhere",
    "run digits --draw /proc/graph.dot": "which cannot be written",
    "run digits --space trade_of": "did you mean 'trade_off'",
    "run digits --data.name digit": "did you mean 'digits'",
    "run digits --network.backbone classifier": "did you mean 'classifier32'",
    "run digits --network.backbone efficientnet_b0": "mean torchvision:efficientnet_b0 or timm:efficientnet_b0?",
    "run digits --network.backbone nothing": "resnet18; timm:NAME; torchvision:NAME; wide_resnet28_10",
    "run digits --network.weights-file file": "has no use for it",
    f"{LARGE} --network.weights-file nowhere.pth": "nowhere.pth, which does not exist; need a .safetensors file, or",
    f"{LARGE} --network.weights-file file": "cannot be read as weights",
    "run digits --pretraining stronk": "did you mean 'strong'",
    "run digits --data.num-known 9": "has 10 classes",
    "run digits --data.streaming": "digits has the layout embedded",
    "run digits --data.name folder --data-dir empty": "need a folder of images for each class",
    "run digits --storage file/storage": "cannot be written (Not a directory); give another --storage",
    "run digits --draw graph.bmp": ".dot, .svg",
    "run digits --storage foo://bar": "Unrecognized filesystem type",
    "run digits --data.streaming --storage s3://bucket/x": "give a folder that all of them see",
    "run digits --storage gs:/bucket/x": "give gs://bucket/x for a URI, or ./gs:/bucket/x for a folder",
    "run digits --storage file:/srv/x": "give file:///srv/x for a URI, or ./file:/srv/x for a folder",
    "clean --storage s3://bucket/prefix": "give a folder here",
    "clean --storage . --yes": "no work of a run",
    "ui --port 70000": "--port got 70000; need 1 to 65535",
    "run digits --pretrained nowhere.pt": "there is no checkpoint",
    "run cifar100-cpu --pretrained seven.safetensors": "no training would begin from it. Give a recipe that fine-tunes",
    "run digits --pretrained seven.safetensors": "classifier.weight has shape (7, 128)",
    "sweep digits trade_off --max-hours nan": "--max-hours is nan",
    "sweep digits trade_off --max-hours 1e305": "--max-hours is 1e+305; need hours up to 100,000",
    "sweep digits continuous --num-samples 0": "--num-samples is 0",
    "sweep digits continuous --num-samples 100000000": "--num-samples is 100000000; need 1 to 10,000",
    "job digits --data.development digist": "no data set is called 'digist'",
    "sweep digits trade_off --storage ~nobody-here/x": "home",
    f"run digits --storage {'x' * 300}": "File name too long",
    "run folder --data-dir file/images": "file/images",
    "run folder --data-dir typo": "the data directory typo does not exist",
    "run folder --data-dir empty --storage new/folder": "the data directory empty is empty",
    "reproduce figures --storage new/folder": "mnist was not found",
    "job cifar100 --with-task --storage new/folder": "--data-dir",
    "sweep digits trade_off --resume --storage new/folder": "--resume found nothing of this sweep",
    "models": "there is no tracking database",
    "promote": "there is no tracking database",
    "promote --best-of a --model-name a/b": "model_name is 'a/b'; it must be letters",
    "promote --best-of a --model-name it\\'s": 'model_name is "it\'s"; it must be letters',
    "promote --best-of a": "there is no tracking database",
    "rollback": "there is no tracking database",
    "rollback --alias v3": "--alias got 'v3'; need letters",
    "serve models:/a@b": "there is no tracking database",
    "run digits --pretrained file": "cannot be read",
    "import nowhere": "nowhere/JOB.json does not exist",
    "job cifar100 --with-task": "--data-dir",
    "job digits -o nowhere/JOB.json": "there is no folder nowhere; make it, or give another",
    "job digits -o .": "--output got .; need a file, and no folder, pipe or device",
    "job digits -o /dev/null": "--output got /dev/null; need a file, and no folder, pipe or device",
    "job digits --storage elsewhere": "--storage elsewhere is for the images that --with-task prepares",
    "job digits -o /proc/JOB.json": "/proc/JOB.json, which cannot be written (No such file or directory); give another",
    "job digits --network.backbone resnet18 --network.dropout 0.2": "network.dropout is 0.2, and the backbone resnet18",
    "job cifar100 --data.streaming": "train with `proser run`",
    "job digits --space trade_of": "did you mean 'trade_off'",
}
"""Command lines, and a part of what each is answered."""


@pytest.mark.parametrize("line", LINES)
def test_bad_input_is_one_line_and_exit_code_2(line: str, place: Path, proser: Proser) -> None:
    (place / "empty").mkdir()
    (place / "file").write_text("text")
    if "seven.safetensors" in line:
        save_weights(make_closed_set_net(NetworkConfig(), 7, digits().data.image_size, 0), place / "seven.safetensors")
    before = set(place.rglob("*"))
    code, _, error = proser(*shlex.split(line))
    assert code == 2
    assert error.startswith("proser: ")
    assert LINES[line] in error
    assert len(error.splitlines()) == 1
    assert set(place.rglob("*")) == before


def test_batches_larger_than_the_training_images_are_refused_once_these_are_counted(proser: Proser) -> None:
    code, _, error = proser(*DIGITS, "--finetune.batch-size", "4000")
    assert code == 2
    assert "more than the" in error
    assert len(error.splitlines()) == 1


def test_a_tracking_server_that_does_not_answer_is_refused_before_any_work(
    place: Path, monkeypatch: pytest.MonkeyPatch, proser: Proser
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    code, _, error = proser(*DIGITS)
    assert code == 2
    assert error.startswith("proser: the tracking server http://127.0.0.1:9 does not answer")
    assert len(error.splitlines()) == 1
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("sqlite:///file", ("/file cannot be opened", "file is not a database", "name another file")),
        ("sqlite:///folder", ("/folder cannot be opened", "unable to open", "name another file")),
        ("postgresql://u:secret@127.0.0.1:1/x", ("postgresql://127.0.0.1:1/x cannot be opened", "refused", "start it")),
        ("mysql://127.0.0.1:port/x", ("mysql://127.0.0.1:port/x cannot be opened", "correct MLFLOW_TRACKING_URI")),
    ],
)
def test_a_tracking_database_that_cannot_be_opened_is_refused_with_what_can_be_done(
    uri: str, parts: tuple[str, ...], place: Path, monkeypatch: pytest.MonkeyPatch, proser: Proser
) -> None:
    (place / "file").write_text("text of some length, so that it has the size of a database's header, and more of it")
    (place / "folder").mkdir()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    code, _, error = proser("models")
    assert code == 2
    assert [part for part in parts if part not in error] == []
    assert "secret" not in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("given", ["2m", "-1", "nan", "inf"])
def test_a_patience_that_is_no_number_of_seconds_is_refused_before_any_work(
    given: str, place: Path, monkeypatch: pytest.MonkeyPatch, proser: Proser
) -> None:
    monkeypatch.setenv(TIMEOUT_VARIABLE, given)
    code, _, error = proser(*DIGITS)
    assert code == 2
    assert error == f"proser: {TIMEOUT_VARIABLE} is '{given}'; need a number of seconds, 0 or more, such as 90\n"
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_a_ray_address_that_does_not_answer_is_refused(place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *DIGITS, "--cluster.address", "127.0.0.1:9"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=dict(os.environ),
    )
    assert done.returncode == 2
    assert "proser: no Ray cluster answers at 127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_draw_writes_the_graph_with_the_six_stages(place: Path, proser: Proser) -> None:
    code, text, _ = proser(*DIGITS, "--draw", "graph.dot")
    assert (code, text) == (0, "written: graph.dot\n")
    graph = (place / "graph.dot").read_text()
    stages = ("prepared", "pretrained", "swept", "evaluated", "reported", "registered")
    assert all(stage in graph for stage in stages)
    assert "prepared -> pretrained" in graph
    assert {path.name for path in place.iterdir()} == {"graph.dot"}


RUN = """
import sys
from pipelines.cli import main
sys.argv = ["proser", *sys.argv[1:]]
code = main()
print("loaded:", *sorted({"ray", "mlflow"} & set(sys.modules)))
sys.exit(code)
"""


def test_bad_input_of_a_run_is_refused_before_ray_and_mlflow_are_loaded(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN, "run", "cifar100-cpu", "--data-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (2, "loaded:")
    assert "is empty" in done.stderr
