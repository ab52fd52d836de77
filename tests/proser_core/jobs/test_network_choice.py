"""Which network becomes the model, and what is said where a better one does not."""

import numpy as np
import pytest

from proser_core.config import FinetuneConfig, named_finetunes, to_json
from proser_core.config.calibration import NetworkName
from proser_core.errors import TrainingError
from proser_core.jobs.network_choice import Candidate, choose_network, passed_over, trained_control
from proser_core.recognition.calibration import calibrate
from proser_core.recognition.evaluation import DevelopmentMetrics, EvaluationReport
from proser_core.recognition.scored_network import ScoredNetwork
from proser_core.recognition.scores import MaxLogit


def candidate(macro_f1: float) -> Candidate:
    metrics = DevelopmentMetrics(auroc=0.5, macro_f1=macro_f1, closed_set_accuracy=0.9, balanced_accuracy=0.9)
    report = EvaluationReport(calibrate(np.arange(20.0)), metrics, None)
    return Candidate({}, ScoredNetwork({}, np.zeros(0, int), MaxLogit(), report, {}), "")


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


@pytest.mark.parametrize(
    ("wanted", "proser", "control", "chosen"),
    [
        ("auto", 0.41, 0.45, "CE control"),
        ("auto", 0.45, 0.41, "PROSER"),
        ("auto", 0.45, 0.45, "PROSER"),
        ("control", 0.45, 0.41, "CE control"),
    ],
    ids=["the control is better", "PROSER is better", "a tie", "named"],
)
def test_auto_takes_the_network_with_the_better_macro_f1(
    wanted: NetworkName, proser: float, control: float, chosen: str
) -> None:
    both = {"PROSER": candidate(proser), "CE control": candidate(control)}
    found, choice = choose_network(wanted, *both.values())
    assert found is both[chosen]
    assert choice is not None
    assert (choice.chosen, choice.by_development) == (chosen, wanted == "auto")
    assert choice.macro_f1 == {"PROSER": proser, "CE control": control}


@pytest.mark.parametrize(("has_proxy", "why"), [(False, "named in advance"), (True, "as in the proxy")])
def test_a_network_that_a_proxy_may_have_chosen_is_not_said_to_be_named_in_advance(has_proxy: bool, why: str) -> None:
    choice = choose_network("control", candidate(0.41), candidate(0.45))[1]
    assert choice is not None
    assert choice.in_words(has_proxy) == f"CE control, {why}"


def test_by_default_nothing_is_chosen() -> None:
    proser = candidate(0.41)
    assert choose_network("proser", proser, candidate(0.45)) == (proser, None)


def test_a_control_that_is_missing_leaves_auto_with_proser_and_cannot_be_named() -> None:
    proser = candidate(0.41)
    found, choice = choose_network("auto", proser, None)
    assert found is proser
    assert choice is not None
    assert choice.in_words() == "PROSER; the control was not trained, or failed, so that nothing was chosen"
    with pytest.raises(TrainingError, match="control was not trained, or failed"):
        choose_network("control", proser, None)


def test_of_several_fine_tunes_by_cross_entropy_the_control_is_that_of_the_recipes_own_point() -> None:
    own, other = FinetuneConfig(lr=0.01, gamma=0.5), FinetuneConfig(lr=0.1)
    rows = [
        {"key": key, "split_index": 0, "status": "finished", "params": to_json(named_finetunes.control(tuned))}
        for key, tuned in (("other", other), ("own", own))
    ]
    assert trained_control(rows, 0, own) == rows[1]
    assert trained_control(rows, 1, own) is None
    assert trained_control(rows[:1], 0, own) is None
