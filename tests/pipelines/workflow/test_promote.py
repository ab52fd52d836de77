"""Promotion and rollback on a real registry: what is compared, what is refused, what is written down."""

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import mlflow
import numpy as np
import pytest
from mlflow.exceptions import MlflowException
from pipeline_runs import printed
from registered_models import Registry, classifier_of

from pipelines.commands.models import print_models
from pipelines.tracking import decisions
from pipelines.tracking.models import load
from pipelines.tracking.server import experiment_id, sqlite_file, tracking_uri
from pipelines.workflow.promotion import promote
from pipelines.workflow.requests import PromoteRequest
from pipelines.workflow.rollback import rollback
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import CheckpointError, ConfigError, ProserError, TrackingError
from proser_core.recognition.classifier_files import CARD
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.store.store import Artefact

pytestmark = pytest.mark.usefixtures("empty_figures", "empty_programs")


@pytest.fixture(scope="module")
def bad(task: Artefact, closed_set_weights: Path) -> OpenSetClassifier:
    return classifier_of(task, closed_set_weights, noise=1.0)


@pytest.fixture(scope="module")
def of_other_images(task: Artefact, closed_set_weights: Path) -> OpenSetClassifier:
    return classifier_of(task, closed_set_weights, dropped=3)


@pytest.fixture(scope="module", autouse=True)
def database(tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.mktemp("registry")
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
    patch.setattr("pipelines.tracking.decisions.LOCKS", folder / "locks")


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path, tmp_path.name)


@pytest.fixture
def three(registry: Registry, classifier: OpenSetClassifier, bad: OpenSetClassifier) -> Registry:
    """With three versions, of which the first is the champion and the last two are better."""
    for each in (bad, classifier, replace(classifier, recipe={**classifier.recipe, "seed": 7})):
        registry.add(each)
    return registry


def promoted(registry: Registry, **request) -> tuple[int, str]:
    return printed(promote, PromoteRequest(registry.name, **request))


def rolled_back(registry: Registry) -> str:
    """Who is the champion after a rollback."""
    assert printed(rollback, registry.name, "champion")[0] == 0
    return registry.champion


NO_DECISION = "no decision records which version of .* was champion before "


@pytest.mark.parametrize("score", ["MSP", "OpenMax"])
def test_a_control_takes_the_place_of_a_network_with_placeholders(
    registry: Registry, bad: OpenSetClassifier, task: Artefact, closed_set_weights: Path, score: str
) -> None:
    registry.add(bad)
    control = classifier_of(task, closed_set_weights, control=score)
    registry.add(control)
    assert promoted(registry, tolerance=0.1)[0] == 0
    champion = load(f"models:/{registry.name}@champion")
    assert champion.version.number == "2"
    images = np.asarray(OpenSetTask.load(task.path).test.images[:20])
    expected = control.predict(images)
    np.testing.assert_array_equal(champion.classifier.predict(images).unknown_scores, expected.unknown_scores)
    served = mlflow.pyfunc.load_model(f"models:/{registry.name}@champion")
    assert served.predict({"image": images}).label.tolist() == expected.labels
    assert ("program" in served.metadata.flavors["python_function"]["artifacts"]) == (score != "OpenMax")


def test_the_test_models_differ_as_their_names_say(classifier: OpenSetClassifier, bad: OpenSetClassifier) -> None:
    assert classifier.results["dev/macro_f1"] > bad.results["dev/macro_f1"] + 0.1


def test_a_better_candidate_takes_the_champions_place_and_a_worse_one_is_refused(
    registry: Registry, classifier: OpenSetClassifier, bad: OpenSetClassifier
) -> None:
    registry.add(bad)
    registry.add(classifier)
    code, text = promoted(registry)
    assert (code, registry.champion) == (0, "2")
    assert f"promoted: {registry.name} version 2 is the champion now, instead of {registry.name} version 1" in text
    registry.add(replace(bad, recipe={**bad.recipe, "seed": 7}))
    code, text = promoted(registry)
    assert (code, registry.champion) == (1, "2")
    assert "objection: macro-F1:" in text
    assert f"refused: {registry.name} version 2 stays the champion" in text
    code, text = promoted(registry, force=True)
    assert (code, registry.champion) == (0, "3")
    kinds = [run.data.tags[decisions.KIND] for run in registry.decided()]
    assert kinds == [decisions.PROMOTED, decisions.REFUSED, decisions.FORCED]


def test_a_decision_is_a_run_with_a_report_its_intervals_and_a_figure(
    registry: Registry, classifier: OpenSetClassifier, bad: OpenSetClassifier
) -> None:
    registry.add(bad)
    registry.add(classifier)
    promoted(registry)
    (run,) = registry.decided()
    client = registry.client
    assert run.info.status == "FINISHED"
    assert {file.path for file in client.list_artifacts(run.info.run_id)} == {"decision.md", "comparison.png"}
    metrics = run.data.metrics
    assert metrics["candidate/macro_f1"] == pytest.approx(classifier.results["dev/macro_f1"])
    assert metrics["champion/auroc"] == pytest.approx(bad.results["dev/auroc"])
    assert metrics["difference/macro_f1_low"] <= metrics["difference/macro_f1"] <= metrics["difference/macro_f1_high"]
    note = run.data.tags[decisions.NOTE]
    assert "Test metrics, which decide nothing" in note
    assert "| AUROC, 1 unknown |" in note


def test_test_figures_decide_nothing(registry: Registry, classifier: OpenSetClassifier) -> None:
    registry.add(classifier)
    worse = {name: 0.0 if name.startswith("test/") else value for name, value in classifier.results.items()}
    registry.add(replace(classifier, results=worse))
    assert promoted(registry)[0] == 0
    assert registry.champion == "2"


def test_a_candidate_that_lets_too_few_known_images_through_is_refused(
    registry: Registry, classifier: OpenSetClassifier
) -> None:
    registry.add(classifier)
    strict = -float(np.quantile(classifier.validation_scores.scores[classifier.validation_scores.is_known], 0.8))
    registry.add(replace(classifier, calibration=replace(classifier.calibration, bias=strict)))
    code, text = promoted(registry, tolerance=0.5)
    assert code == 1
    assert "objection: known rate: 8" in text


def test_models_of_other_images_are_not_compared_but_can_be_forced(
    registry: Registry, classifier: OpenSetClassifier, of_other_images: OpenSetClassifier
) -> None:
    registry.add(classifier)
    registry.add(of_other_images)
    with pytest.raises(TrackingError, match="cannot be compared: their validation and development images"):
        promoted(registry)
    assert registry.champion == "1"
    assert promoted(registry, force=True)[0] == 0
    assert registry.champion == "2"
    assert "Objection: it could not be compared" in registry.decided()[0].data.tags[decisions.NOTE]


def of_photos(classifier: OpenSetClassifier, times: int, fingerprint: str) -> OpenSetClassifier:
    """All images are photos of known classes, numbered from so many times the known images on."""
    scores = classifier.validation_scores
    assert scores is not None
    known = np.flatnonzero(scores.is_known)
    scores = scores.select(np.tile(known, 10))
    contents = np.arange(times * len(known), (times + 10) * len(known), dtype=np.uint64)
    return replace(classifier, validation_scores=replace(scores, contents=contents, fingerprint=fingerprint))


def test_versions_that_see_the_same_photos_at_other_sizes_are_compared(
    registry: Registry, classifier: OpenSetClassifier, bad: OpenSetClassifier
) -> None:
    registry.add(of_photos(classifier, 0, "at 32 pixels"))
    registry.add(of_photos(bad, 0, "at 224 pixels"))
    code, text = promoted(registry)
    assert code == 1
    assert "objection: closed-set accuracy" in text
    assert "cannot be compared" not in text


def test_where_photos_were_added_those_of_both_are_compared(registry: Registry, classifier: OpenSetClassifier) -> None:
    registry.add(of_photos(classifier, 0, "before"))
    registry.add(of_photos(classifier, 2, "after"))
    code, text = promoted(registry)
    assert code == 0
    assert "classes that both know" in text
    registry.add(of_photos(classifier, 20, "others"))
    with pytest.raises(TrackingError, match="fewer than 20 validation images in common"):
        promoted(registry)


def test_without_a_champion_the_candidate_becomes_it(registry: Registry, classifier: OpenSetClassifier) -> None:
    registry.add(classifier)
    registry.client.delete_registered_model_alias(registry.name, "champion")
    code, text = promoted(registry, version="1")
    assert (code, registry.champion) == (0, "1")
    assert "there was none before" in text
    code, text = promoted(registry)
    assert "is the champion already; nothing to do" in text


def test_a_version_that_was_promoted_twice_is_passed_twice_on_the_way_back(three: Registry) -> None:
    for version in ("2", "1", "3", "1"):
        promoted(three, version=version, force=True)
    assert [rolled_back(three) for _ in range(4)] == ["3", "1", "2", "1"]
    assert three.decided()[-1].data.tags[decisions.KIND] == decisions.ROLLED_BACK
    with pytest.raises(TrackingError, match=f"{NO_DECISION}1"):
        rolled_back(three)
    promoted(three, version="2")
    assert rolled_back(three) == "1"


def test_a_rollback_passes_over_versions_that_were_deleted(three: Registry) -> None:
    for version in ("2", "3", "2", "3"):
        promoted(three, version=version, force=True)
    three.client.delete_model_version(three.name, "2")
    assert rolled_back(three) == "1"
    with pytest.raises(TrackingError, match=f"{NO_DECISION}1"):
        rolled_back(three)


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
        context.Process(target=promote_in_process, args=(three.name, number, results)) for number in ("2", "3")
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


def test_the_list_has_every_version_with_its_aliases_and_figures(
    registry: Registry, classifier: OpenSetClassifier, bad: OpenSetClassifier
) -> None:
    assert experiment_id(registry.client)  # makes the database
    with pytest.raises(TrackingError, match=f"no version of a model '{registry.name}'; it has models: "):
        printed(print_models, registry.name)
    registry.add(bad)
    registry.add(classifier)
    _, text = printed(print_models, registry.name)
    newest, oldest = [line.split() for line in text.splitlines() if "digits" in line]
    assert newest[:3] == ["2", "candidate", "digits"]
    assert oldest[:3] == ["1", "champion", "digits"]
    assert newest[3] == f"{100 * classifier.results['dev/macro_f1']:.1f}"


def test_no_name_in_the_list_is_cut_at_80_columns(registry: Registry, classifier: OpenSetClassifier) -> None:
    registry.add(classifier)
    registry.client.set_model_version_tag(registry.name, "1", "proser.recipe", "cifar100-cpu-finetune")
    _, text = printed(print_models, registry.name, width=80)
    assert {"champion", "candidate", "cifar100-cpu-finetune"} <= set(text.split())
    assert {"macro-F1", "AUROC", "accuracy", "known"} <= set(text.split())
    assert max(map(len, text.splitlines()[1:])) <= 80


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("models:/other@champion", "no version of a model 'other'; it has models: .*NAME"),
        ("models:/NAME@best", "no alias 'best'; it has versions 1 and aliases @candidate, @champion"),
        ("models:/NAME/7", "no version '7'; it has versions 1"),
        ("models:/NAME", "need models:/NAME@ALIAS"),
    ],
)
def test_a_model_that_is_not_there_is_refused_with_what_there_is(
    registry: Registry, classifier: OpenSetClassifier, uri: str, reason: str
) -> None:
    registry.add(classifier)
    with pytest.raises(TrackingError, match=reason.replace(".*NAME", f".*{registry.name}")):
        load(uri.replace("NAME", registry.name))


def stored_card(registry: Registry) -> Path:
    source = registry.client.get_model_version(registry.name, "1").source
    place = Path(mlflow.artifacts.download_artifacts(source).removeprefix("file://"))
    return place / "artifacts" / "classifier" / CARD


def test_a_registered_model_that_was_changed_is_refused_by_name(
    registry: Registry, classifier: OpenSetClassifier
) -> None:
    registry.add(classifier)
    card = stored_card(registry)
    values = json.loads(card.read_text())
    values["calibration"]["bias"] += 1
    card.write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=f"{CARD} was changed after it was saved"):
        load(f"models:/{registry.name}@champion")
    card.unlink()
    with pytest.raises(CheckpointError, match=f"{CARD} is missing"):
        load(f"models:/{registry.name}@champion")


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

    process = multiprocessing.get_context("fork").Process(target=killed)
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


@pytest.mark.parametrize("alias", ["latest", "v3", "prod.eu", ""])
def test_an_alias_that_mlflow_does_not_take_is_refused_before_anything(registry: Registry, alias: str) -> None:
    with pytest.raises(ConfigError, match=f"--alias got '{alias}'; need letters"):
        promoted(registry, alias=alias)


def test_another_alias_has_champions_of_its_own(registry: Registry, classifier: OpenSetClassifier) -> None:
    registry.add(classifier)
    assert promoted(registry, alias="prod-eu_1")[0] == 0
    assert registry.client.get_model_version_by_alias(registry.name, "prod-eu_1").version in (1, "1")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"ensemble": 0, "best_of": "a"}, r"--ensemble got 0; need a number of trials from 1 to 10"),
        ({"ensemble": 11, "best_of": "a"}, r"--ensemble got 11; need a number of trials from 1 to 10"),
        ({"ensemble": 2}, r"--ensemble 2 is about the trials of a sweep; name the sweep with --best-of"),
        ({"split_index": 0}, r"--split-index 0 is about the trials of a sweep; name the sweep with --best-of"),
        ({"storage": Path("a")}, r"--storage a is about the trials of a sweep; name the sweep with --best-of"),
    ],
)
def test_an_ensemble_of_too_many_and_options_of_a_sweep_without_one_are_refused(
    registry: Registry, request_: dict, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        promoted(registry, **request_)


def test_a_tolerance_that_is_no_fraction_is_refused(registry: Registry) -> None:
    with pytest.raises(ConfigError, match=r"--tolerance got 2; need a fraction"):
        promoted(registry, tolerance=2)
