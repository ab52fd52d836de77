"""A reproduction of several studies, one of which fails: the others are reported, and the page says which failed."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from pipeline_runs import printed
from training_jobs import tiny_recipe

from pipelines.output_files import RESULTS
from pipelines.reproduction import protocols, reproducing, studies
from pipelines.reproduction.protocols import Column, Protocol, Study
from pipelines.reproduction.report import HTML
from pipelines.reproduction.request import ReproduceRequest
from pipelines.reproduction.results import SplitResult
from proser_core.config import FinetuneConfig
from proser_core.errors import DataError, TrainingError

DATA = replace(tiny_recipe().data, development="none", unknown_settings=(2, 3))
METRIC = "test/closed_set_accuracy"

pytestmark = pytest.mark.usefixtures("empty_figures")


@pytest.fixture(params=[TrainingError, DataError])
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ReproduceRequest:
    """Three protocols of two studies; training, planning and tracking stand aside, and the study `second` always
    fails, in a training or for its images."""
    error = request.param
    for name in ("first", "second"):
        monkeypatch.setitem(protocols.STUDIES, name, Study(name.title(), DATA, (0,)))
        columns = (Column(name.title(), name, METRIC),)
        monkeypatch.setitem(protocols.PROTOCOLS, f"{name}-accuracy", Protocol("Accuracy", "here", columns))
    times = Protocol("Times", "here", (Column("Second", "second", "seconds"),))
    monkeypatch.setitem(protocols.PROTOCOLS, "times", times)

    def compared(request: ReproduceRequest, study: studies.PreparedStudy, session: object) -> reproducing.ComparedStudy:
        if study.name == "second":
            raise error("class split 0 failed: the loss is nan")
        results = [SplitResult(study.name, 0, "MSP", {METRIC: 0.5}, 60.0, ("2 cores",))]
        return reproducing.ComparedStudy(study, Mock(), results, [])

    monkeypatch.setattr(reproducing, "_compared", compared)
    for name in ("_print_plans", "check_tracking"):
        monkeypatch.setattr(reproducing, name, Mock())
    recipe = replace(tiny_recipe(), finetune=FinetuneConfig(epochs=2))
    names = ("first-accuracy", "second-accuracy", "times")
    return ReproduceRequest(names, recipe, None, tmp_path / "storage", methods=("MSP",), image_size=8)


def test_the_others_are_reported_and_the_page_says_which_failed_and_why(wanted: ReproduceRequest) -> None:
    code, text = printed(reproducing.reproduce, wanted)
    assert code == 1
    assert "failed: second: class split 0 failed: the loss is nan" in text
    report = next(line for line in text.splitlines() if line.startswith("Report: "))
    page = Path(report.removeprefix("Report: "))
    assert "| MSP | 50.0 |" in (page.parent / RESULTS).read_text()
    for name in (HTML, RESULTS):
        assert "failed: class split 0 failed: the loss is nan" in (page.parent / name).read_text()
    assert {path.stem for path in (page.parent / "figures").iterdir()} == {"first-accuracy_methods"}


def test_where_all_fail_it_is_an_error(wanted: ReproduceRequest) -> None:
    with pytest.raises((TrainingError, DataError), match="the loss is nan"):
        printed(reproducing.reproduce, replace(wanted, names=("second-accuracy", "times")))
