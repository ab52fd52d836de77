"""Rollback on a real registry: the champion before, however often it changed."""

from itertools import count
from pathlib import Path

import pytest
from mlflow import MlflowClient
from registered_models import Registry, promoted, rolled_back
from rich.console import Console

from pipelines.tracking import decisions
from pipelines.tracking.models import load
from pipelines.workflow.rollback import rollback
from proser_core.errors import ConfigError, TrackingError
from proser_core.recognition.open_set_classifier import OpenSetClassifier

pytestmark = pytest.mark.usefixtures("empty_figures", "empty_programs", "few_resamples", "logged_once")
NO_DECISION = "no decision records which version of .* was champion before "


def test_a_version_that_was_promoted_twice_is_passed_twice_on_the_way_back(three: Registry) -> None:
    for version in ("2", "1", "3", "1"):
        promoted(three, version=version, force=True)
    assert [rolled_back(three) for _ in range(4)] == ["3", "1", "2", "1"]
    assert three.decided()[-1].data.tags[decisions.KIND] == decisions.ROLLED_BACK
    with pytest.raises(TrackingError, match=f"{NO_DECISION}1"):
        rolled_back(three)
    promoted(three, version="2")
    assert rolled_back(three) == "1"


def test_decisions_from_machines_whose_clocks_differ_are_in_the_order_of_their_links(
    three: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_run, times = MlflowClient.create_run, count(1000, -1)
    monkeypatch.setattr(
        MlflowClient, "create_run", lambda *given, **more: create_run(*given, **more, start_time=next(times))
    )
    for version in ("2", "3"):
        promoted(three, version=version, force=True)
    assert [rolled_back(three) for _ in range(2)] == ["2", "1"]
    with pytest.raises(TrackingError, match=f"{NO_DECISION}1"):
        rolled_back(three)


def test_what_came_after_the_first_holder_of_an_alias_does_not_lead_to_it(three: Registry) -> None:
    for version in ("3", "2"):
        promoted(three, version=version, alias="prod", force=True)
    three.client.set_registered_model_alias(three.name, "prod", "3")
    with pytest.raises(TrackingError, match=r"no decision records which version of .* was prod before 3"):
        rollback(three.name, "prod", Console())


def test_a_rollback_passes_over_versions_that_were_deleted(three: Registry) -> None:
    for version in ("2", "3", "2", "3"):
        promoted(three, version=version, force=True)
    three.client.delete_model_version(three.name, "2")
    assert rolled_back(three) == "1"
    with pytest.raises(TrackingError, match=f"{NO_DECISION}1"):
        rolled_back(three)


def test_after_the_champion_was_deleted_the_one_before_is_champion_again(three: Registry) -> None:
    for version in ("2", "3"):
        promoted(three, version=version, force=True)
    three.client.delete_model_version(three.name, "3")
    assert rolled_back(three) == "2"
    assert rolled_back(three) == "1"


def test_a_version_that_was_refused_was_never_the_champion(three: Registry) -> None:
    for version in ("2", "3"):
        promoted(three, version=version, force=True)
    assert promoted(three, version="1")[0] == 1
    three.client.delete_model_version(three.name, "3")
    assert rolled_back(three) == "2"


def test_what_was_decided_of_another_alias_or_model_leads_nowhere(three: Registry, tmp_path: Path) -> None:
    promoted(three, version="2")
    for version in ("3", "2"):
        promoted(three, version=version, alias="prod", force=True)
    assert rolled_back(three) == "1"
    promoted(three, version="2")
    other = Registry(tmp_path, f"{three.name}-other")
    for number in ("1", "2", "3"):
        other.add(load(f"models:/{three.name}/{number}").classifier)
    for version in ("3", "2"):
        promoted(other, version=version, force=True)
    assert rolled_back(three) == "1"


def test_a_name_that_no_model_can_have_is_refused_as_a_whole(three: Registry) -> None:
    with pytest.raises(ConfigError, match="--model-name got 'a/b'; need the name of a registered model"):
        rollback("a/b", "champion", Console())


def test_what_was_before_an_alias_that_was_moved_by_another_hand_is_not_guessed(three: Registry) -> None:
    promoted(three, version="2")
    three.client.set_registered_model_alias(three.name, "champion", "3")
    with pytest.raises(TrackingError, match=f"{NO_DECISION}3"):
        rolled_back(three)
    promoted(three, version="2", force=True)
    assert rolled_back(three) == "3"


def test_a_rollback_without_a_decision_or_to_a_version_that_is_gone_is_refused(
    registry: Registry, classifier: OpenSetClassifier, bad: OpenSetClassifier
) -> None:
    with pytest.raises(TrackingError, match="has no version of a model"):
        rolled_back(registry)
    registry.add(bad)
    with pytest.raises(TrackingError, match=f"{NO_DECISION}1"):
        rolled_back(registry)
    registry.add(classifier)
    promoted(registry)
    registry.client.delete_model_version(registry.name, "1")
    with pytest.raises(TrackingError, match=r"version 1 of .*, the champion before, was deleted"):
        rolled_back(registry)
    assert registry.champion == "2"
