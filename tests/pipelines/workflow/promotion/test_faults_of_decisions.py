"""Decisions that are killed, lost, overtaken or made at once, and champions that cannot be loaded."""

import multiprocessing
import os
import shutil
import signal
import sqlite3
from contextlib import closing, suppress

import mlflow
import pytest
from mlflow.exceptions import MlflowException
from pipeline_runs import printed
from registered_models import Registry, promoted, rolled_back, stored_card

from pipelines.tracking import decisions
from pipelines.tracking.models import load
from pipelines.tracking.server import sqlite_file, tracking_uri
from pipelines.workflow.promotion import promote
from pipelines.workflow.requests import PromoteRequest
from proser_core.errors import ProserError, TrackingError
from proser_core.recognition.open_set_classifier import OpenSetClassifier

pytestmark = pytest.mark.usefixtures("empty_figures", "empty_programs", "few_resamples")


def test_an_alias_that_moved_in_the_meantime_is_left_where_it_is(
    three: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out = decisions.carry_out

    def meanwhile(*arguments) -> str:
        three.client.set_registered_model_alias(three.name, "champion", "2")
        return carry_out(*arguments)

    monkeypatch.setattr("pipelines.workflow.promotion.carry_out", meanwhile)
    with pytest.raises(TrackingError, match="went from version 1 to 2 while this was decided"):
        promoted(three, version="3")
    assert three.champion == "2"
    (run,) = three.decided()
    assert (run.info.status, run.data.tags[decisions.KIND]) == ("FAILED", decisions.OVERTAKEN)


def promote_in_process(name: str, version: str, results: "multiprocessing.Queue[tuple[str, int | str]]") -> None:
    try:
        results.put((version, printed(promote, PromoteRequest(name, version))[0]))
    except ProserError as error:
        results.put((version, str(error)))


def test_of_promotions_at_once_the_alias_is_where_the_last_decision_put_it(three: Registry) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [
        context.Process(target=promote_in_process, args=(three.name, number, results), daemon=True)
        for number in ("2", "3")
    ]
    for process in processes:
        process.start()
    outcomes = dict(results.get(timeout=120) for _ in processes)
    for process in processes:
        process.join()
    moves = [run.data.tags for run in three.decided()]
    assert len(moves) == sum(outcome == 0 for outcome in outcomes.values()) >= 1
    assert moves[0][decisions.BEFORE] == "1"
    assert [tags[decisions.BEFORE] for tags in moves[1:]] == [tags[decisions.VERSION] for tags in moves[:-1]]
    assert three.champion == moves[-1][decisions.VERSION]
    assert all(outcome == 0 or "another decision on the model" in str(outcome) for outcome in outcomes.values())


def database_says(statement: str, *values: str) -> None:
    """What no command of MLflow does: another program wrote to the database, or restored an old one."""
    file = sqlite_file(tracking_uri())
    assert file is not None
    with closing(sqlite3.connect(file)) as database:
        database.execute(statement, values)
        database.commit()


@pytest.mark.parametrize("lost", ["http", "files", "version"])
def test_in_the_place_of_a_champion_that_cannot_be_loaded_another_one_is_promoted_by_force(
    registry: Registry, classifier: OpenSetClassifier, bad: OpenSetClassifier, lost: str
) -> None:
    registry.add(bad)
    registry.add(classifier)
    if lost == "http":
        place = "UPDATE model_versions SET storage_location = ? WHERE name = ? AND version = 1"
        database_says(place, "http://127.0.0.1:1/model", registry.name)
    elif lost == "files":
        shutil.rmtree(stored_card(registry).parents[2])
    else:
        database_says(
            "UPDATE registered_model_aliases SET version = 7 WHERE name = ? AND alias = 'champion'", registry.name
        )
        with pytest.raises(TrackingError, match="has no alias 'champion'"):
            load(f"models:/{registry.name}@champion")
    with pytest.raises(
        TrackingError, match=r"version .*1.*\. --force promotes .* version 2 without a comparison"
    ) as said:
        promoted(registry, version="2")
    assert "\n" not in str(said.value)
    code, text = promoted(registry, version="2", force=True)
    assert (code, registry.champion) == (0, "2")
    assert "promoted by force" in text
    assert [run.data.tags[decisions.KIND] for run in registry.decided()] == [decisions.FORCED]


@pytest.mark.parametrize("method", ["log_text", "set_registered_model_alias", "set_terminated"])
def test_a_promotion_that_was_killed_is_finished_by_the_same_command(three: Registry, method: str) -> None:
    def killed() -> None:
        setattr(mlflow.MlflowClient, method, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        promoted(three, version="2")

    process = multiprocessing.get_context("fork").Process(target=killed, daemon=True)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert promoted(three, version="2")[0] == 0
    assert three.champion == "2"
    assert [run.info.status for run in three.decided()].count("FINISHED") == 1
    assert "RUNNING" not in [run.info.status for run in three.decided()]
    assert rolled_back(three) == "1"


@pytest.mark.parametrize("error", [MlflowException("Read timed out"), KeyboardInterrupt()], ids=["timeout", "Ctrl-C"])
@pytest.mark.parametrize("is_away", [False, True])
def test_a_promotion_whose_answer_is_lost_has_an_effect(three: Registry, error: BaseException, is_away: bool) -> None:
    """At once, or where the server is away after it, as soon as anybody decides."""
    move = mlflow.MlflowClient.set_registered_model_alias

    def away(*_) -> None:
        raise MlflowException("Connection refused")

    with pytest.MonkeyPatch.context() as patch, suppress(MlflowException, KeyboardInterrupt):

        def lost(*arguments) -> None:
            move(*arguments)
            if is_away:
                patch.setattr(mlflow.MlflowClient, "get_registered_model", away)
            raise error

        patch.setattr(mlflow.MlflowClient, "set_registered_model_alias", lost)
        assert promoted(three, version="2")[0] == 0
        assert not is_away
    assert three.champion == "2"
    if is_away:
        assert "is the champion already" in promoted(three, version="2")[1]
    (run,) = three.decided()
    assert (run.info.status, run.data.tags[decisions.KIND]) == ("FINISHED", decisions.PROMOTED)
    assert rolled_back(three) == "1"


def test_an_interrupt_is_raised_whether_the_alias_moved_before_it_or_not(
    three: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = mlflow.MlflowClient.set_registered_model_alias
    for arrives, champion in ((False, "1"), (True, "2")):

        def interrupted(*arguments, arrives: bool = arrives) -> None:
            if arrives:
                move(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(mlflow.MlflowClient, "set_registered_model_alias", interrupted)
        with pytest.raises(KeyboardInterrupt):
            promoted(three, version="2")
        assert three.champion == champion
    assert [run.info.status for run in three.decided()] == ["KILLED", "FINISHED"]
