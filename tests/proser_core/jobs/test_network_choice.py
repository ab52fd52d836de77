"""Which network becomes the model, and what is said where a better one does not."""

from types import SimpleNamespace

import pytest

from proser_core.config.calibration import NetworkName
from proser_core.jobs.network_choice import Candidate, passed_over


def candidate(macro_f1: float) -> Candidate:
    scored = SimpleNamespace(development_macro_f1=macro_f1)
    return Candidate({}, scored, "")  # type: ignore[arg-type]


def test_a_control_that_is_better_on_development_data_is_named_with_what_would_take_it() -> None:
    assert passed_over("proser", candidate(0.41), candidate(0.45)) == (
        "On development data CE control has the larger macro-F1 (45.0, PROSER 41.0), and PROSER is still used: "
        "`--calibration.network auto` takes the better one."
    )


@pytest.mark.parametrize(
    ("wanted", "control"),
    [("proser", candidate(0.41)), ("proser", None), ("auto", candidate(0.45)), ("control", candidate(0.45))],
    ids=["no better", "failed", "chosen", "named"],
)
def test_nothing_is_said_of_others(wanted: NetworkName, control: Candidate | None) -> None:
    assert passed_over(wanted, candidate(0.41), control) == ""
