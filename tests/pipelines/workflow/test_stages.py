"""Stages as functions of values: small trainings of digits evaluated and reported without Ray, cluster or MLflow."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_jobs import ignore

from pipelines.reports.scores_page import SCORES_PAGE
from pipelines.storage.storage import Storage
from pipelines.workflow.stages.evaluate import CLASSIFIER, TEST_SCORES, Networks, evaluate_run, read_evaluation
from pipelines.workflow.stages.report import report
from pipelines.workflow.stages.trial_rows import TrialRows, failures_of, read_rows, write_rows
from pipelines.workflow.trained_split import TrainedSplit
from pipelines.workflow.training import finetunes_of
from proser_core.config import CalibrationConfig
from proser_core.config.calibration import NetworkName
from proser_core.data.tasks import Labelled, OpenSetTask, TaskSummary
from proser_core.errors import CalibrationError, ConfigError, TrainingError
from proser_core.jobs import spec
from proser_core.jobs.further_development import check_further, further_images
from proser_core.jobs.network_tables import TABLES, load_further
from proser_core.jobs.selection import select
from proser_core.jobs.trials import check_score
from proser_core.jobs.worker import run_job
from proser_core.recognition.classifier_files import MODEL_CARD
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scoring import OpenSetScores
from proser_core.store.store import Artefact, Progress
from tune_spaces import space_info

RATE = 0.8


@dataclass(frozen=True)
class Trained:
    """A class split with its trials, of which the last one was never trained."""

    split: TrainedSplit
    rows: list[dict[str, Any]]
    folders: Path


@pytest.fixture(scope="module")
def trained(split: TrainedSplit, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    store = Storage(tmp_path_factory.mktemp("stages"))
    split = replace(split, recipe=replace(split.recipe, calibration=CalibrationConfig(target_rate=RATE)))
    points = [replace(split.recipe.finetune, beta=beta) for beta in (2.0, 3.0)]
    trials = split.trials(finetunes_of(split.recipe, points), store)
    for trial in trials[:-1]:
        run_job(trial.job(split.task, split.pretrained), ignore)
    rows = TrialRows({0: split.task}, {"betas": points}, (), lambda: "nothing was said")
    return Trained(split, [rows.row(trial) for trial in trials], store.root / spec.TRIALS)


def write_report(split: TrainedSplit, trained: Trained, evaluated: Path, folder: Path) -> None:
    """The stage report of what was evaluated."""
    infos = {split.recipe.space: space_info(split.recipe.space)}
    report(split, trained.rows, Artefact(evaluated, ""), infos, trained.folders, folder)


def test_rows_say_what_became_of_each_trial(trained: Trained, tmp_path: Path) -> None:
    assert [row["status"] for row in trained.rows] == ["finished", "finished", "finished", "failed"]
    assert [row["spaces"] for row in trained.rows] == [[], [], ["betas"], ["betas"]]
    assert failures_of(trained.rows) == [f"{trained.rows[-1]['name']}: nothing was said"]
    write_rows(trained.rows, tmp_path)
    assert read_rows(Artefact(tmp_path, "")) == trained.rows


def test_a_trial_whose_evaluation_fails_is_evaluated_once(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep asks for the row of one that has ended each second."""
    split, asked = trained.split, []

    def refuse(*arguments: Any) -> None:
        asked.append(arguments)
        raise CalibrationError("no bias")

    monkeypatch.setattr("pipelines.workflow.stages.trial_rows.evaluate", refuse)
    (trial,) = split.trials([split.recipe.finetune], Storage(trained.folders.parent))
    rows = TrialRows({0: split.task}, {}, (), str)
    assert [rows.row(trial)["reason"] for _ in range(3)] == ["no bias"] * 3
    assert len(asked) == 1


def test_a_trial_that_a_search_stopped_is_no_failure_and_shows_its_score_of_that_moment(
    trained: Trained, tmp_path: Path
) -> None:
    point = replace(trained.split.recipe.finetune, beta=4.0)
    (trial,) = trained.split.trials([point], Storage(tmp_path))
    stopped = TrialRows({0: trained.split.task}, {}, [point], str).row
    assert (stopped(trial)["status"], stopped(trial)["reason"]) == ("stopped", "not started in time")
    trial.folder.mkdir(parents=True)
    (trial.folder / spec.EPOCHS).write_text("{}\n{}\n")
    score = {"epochs": 1, spec.SELECTION_METRIC: 0.5, "scored_by": spec.score_key(trial.recipe.calibration)}
    for epochs, metrics in ((1, {}), (2, {spec.SELECTION_METRIC: 0.5})):
        (trial.folder / spec.DEVELOPMENT_SCORES).write_text(json.dumps({**score, "epochs": epochs}))
        assert stopped(trial)["metrics"] == metrics
    assert failures_of([stopped(trial)]) == []


def test_the_reason_of_a_failure_has_no_secret(trained: Trained, tmp_path: Path) -> None:
    (trial,) = trained.split.trials([replace(trained.split.recipe.finetune, beta=4.0)], Storage(tmp_path))
    rows = TrialRows({0: trained.split.task}, {}, (), lambda: "postgresql://me:hush@there/db is away")
    assert "hush" not in rows.row(trial)["reason"]


def networks_of(
    split: TrainedSplit, folders: Path, store: Storage | None = None, further: Artefact | None = None
) -> Networks:
    """What a run evaluates of a class split."""
    return Networks(split.recipe, split.task, folders, store, further)


def test_an_evaluation_holds_every_control_and_the_selected_trial_as_a_classifier(
    trained: Trained, tmp_path: Path
) -> None:
    split = trained.split
    evaluate_run(networks_of(split, trained.folders), split.pretrained, trained.rows, None, tmp_path)
    evaluation = read_evaluation(Artefact(tmp_path, ""))
    selected = select(trained.rows, split.recipe.finetune)
    assert evaluation["selected"]["key"] == selected["key"]
    classifier = OpenSetClassifier.load(tmp_path / CLASSIFIER)
    assert classifier.results == evaluation["methods"]["PROSER"] == selected["metrics"]
    controls = {name for name in evaluation["methods"] if name.startswith("CE control, ")}
    assert len(controls) == 2
    rates = [method["val/known_rate"] for method in evaluation["methods"].values()]
    assert rates == pytest.approx([RATE] * len(rates), abs=0.01), "all methods keep the same share"


@pytest.mark.usefixtures("empty_figures")
def test_a_report_is_made_of_the_rows_and_the_evaluation_alone(trained: Trained, tmp_path: Path) -> None:
    split, evaluated, folder = trained.split, tmp_path / "evaluated", tmp_path / "report"
    for each in (evaluated, folder):
        each.mkdir()
    evaluate_run(networks_of(split, trained.folders), split.pretrained, trained.rows, None, evaluated)
    write_report(split, trained, evaluated, folder)
    names = {path.name for path in (folder / "tables").iterdir()}
    assert {"evaluation.json", "recipe.json", "class_split.json", "data_fingerprint.json"} <= names
    assert "CE control" in (folder / "results.md").read_text()


def recording_progress() -> tuple[Callable[..., Any], list[tuple[str, int, int]]]:
    """A progress callback for a store, and its calls: the stage, its number of images, and how many it reported."""
    reported: list[tuple[str, int, int]] = []

    @contextmanager
    def progress(stage: str, images: int) -> Iterator[Progress]:
        counts: list[int] = []
        yield counts.append
        reported.append((stage, images, sum(counts)))

    return progress, reported


@pytest.mark.usefixtures("empty_figures")
@pytest.mark.slow
def test_a_score_is_chosen_for_each_network_by_all_development_unknowns_with_mirrored_images(
    trained: Trained, tmp_path: Path
) -> None:
    calibration = replace(trained.split.recipe.calibration, score="auto", development=("noise",), mirror=True)
    recipe, store = replace(trained.split.recipe, calibration=calibration), Storage(tmp_path / "store")
    store.progress, reported = recording_progress()
    split, evaluated, folder = replace(trained.split, recipe=recipe), tmp_path / "evaluated", tmp_path / "report"
    for each in (evaluated, folder):
        each.mkdir()
    further = further_images(recipe, split.task, None, store)
    again, before = (each.trials([recipe.finetune], store)[0] for each in (split, trained.split))
    assert again.folder == before.folder  # nothing is trained anew
    networks = networks_of(split, trained.folders, store, further)
    given = (networks, split.pretrained, trained.rows, None, evaluated)
    evaluate_run(*given)
    computed = sorted((store.root / TABLES).glob("*"))
    assert len(computed) == 3  # selected trial, control, pretrained net
    images = sum(TaskSummary.read(split.task.path).counts.values()) + len(load_further(further)["noise"])
    assert reported == len(computed) * [(TABLES, images, images)]
    found = read_evaluation(Artefact(evaluated, ""))
    assert list(found["choices"]) == ["PROSER", "pretrained net", "CE control"]
    for network, choice in found["choices"].items():
        row = "PROSER" if network == "PROSER" else f"{network}, chosen score"
        assert found["methods"][row] == choice["scores"][choice["chosen"]]["flat"]
        assert list(choice["best"]) == ["held-out-2", "noise"]
    classifier = OpenSetClassifier.load(evaluated / CLASSIFIER)
    assert (classifier.score_function.name, classifier.mirror) == (found["choices"]["PROSER"]["chosen"], True)
    assert classifier.results == found["methods"]["PROSER"]
    assert "Score: " in (evaluated / CLASSIFIER / MODEL_CARD).read_text()
    val = OpenSetTask.load(split.task.path).val
    scores = classifier.score_function(classifier.logits(np.asarray(val.images)))
    np.testing.assert_allclose(scores, classifier.validation_scores.scores[: len(val)], rtol=1e-4, atol=1e-4)

    evaluate_run(*given)
    assert sorted((store.root / TABLES).glob("*")) == computed
    write_report(split, trained, evaluated, folder)
    page = (folder / "tables" / SCORES_PAGE).read_text()
    assert page.count("(chosen)") == 3
    assert "development, noise" in page
    results = (folder / "results.md").read_text()
    assert "Scores, chosen by the mean macro-F1 on development data" in results
    assert "PROSER, chosen score" in results


def check_test_scores(evaluated: Path, classifier: OpenSetClassifier, test: Labelled) -> None:
    """That what is kept of the test images is of the network that became the model."""
    kept, predicted = OpenSetScores.load(evaluated / TEST_SCORES), classifier.predict(np.asarray(test.images))
    np.testing.assert_allclose(kept.unknown_scores, predicted.unknown_scores, rtol=1e-4, atol=1e-4)
    known = test.targets < kept.num_known
    assert kept.accepted[known].mean() == classifier.results["test/known_rate"]
    called = np.bincount(predicted.indices, minlength=kept.num_known + 1)
    assert classifier.classes.confusion.sum(axis=0).tolist() == called.tolist()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Storage:
    """Where the embeddings of the trained networks are computed once for all that is asked of them."""
    return Storage(tmp_path_factory.mktemp("tables"))


@pytest.mark.parametrize(
    ("network", "score", "control"),
    [
        ("control", "", "CE control, MaxLogit"),
        ("control", "fDBD", "CE control, fDBD"),
        ("auto", "", "CE control, MaxLogit"),
        ("auto", "auto", "CE control, chosen score"),
    ],
)
@pytest.mark.usefixtures("empty_figures")
def test_the_network_of_the_model_is_named_or_chosen_by_development_data(
    trained: Trained, tables: Storage, network: NetworkName, score: str, control: str, tmp_path: Path
) -> None:
    calibration = replace(trained.split.recipe.calibration, network=network, score=score)
    split = replace(trained.split, recipe=replace(trained.split.recipe, calibration=calibration))
    evaluated, folder = tmp_path / "evaluated", tmp_path / "report"
    for each in (evaluated, folder):
        each.mkdir()
    evaluate_run(networks_of(split, trained.folders, tables), split.pretrained, trained.rows, None, evaluated)
    found = read_evaluation(Artefact(evaluated, ""))
    on_development = [found["methods"][name]["dev/macro_f1"] for name in ("PROSER", control)]
    wanted = control if network == "control" or on_development[1] > on_development[0] else "PROSER"
    assert found["method"] == wanted
    assert found["point"]["key"] == select(trained.rows, split.recipe.finetune)["key"]
    assert (found["selected"]["key"] == found["point"]["key"]) == (wanted == "PROSER")
    classifier = OpenSetClassifier.load(evaluated / CLASSIFIER)
    assert classifier.results == found["methods"][wanted]
    assert {"PROSER", control} - {wanted} <= classifier.controls.keys()
    assert wanted not in classifier.controls
    assert classifier.num_dummies == (0 if wanted == control else split.recipe.finetune.num_dummies)
    assert classifier.notes["Network"] == found["network"]
    val = OpenSetTask.load(split.task.path).val
    scores = classifier.score_function(classifier.logits(np.asarray(val.images)))
    np.testing.assert_allclose(scores, classifier.validation_scores.scores[: len(val)], rtol=1e-4, atol=1e-4)
    check_test_scores(evaluated, classifier, OpenSetTask.load(split.task.path).test)
    write_report(split, trained, evaluated, folder)
    assert f"Network of the model: {found['network']}" in (folder / "results.md").read_text()
    for name in ("scores", "macro_f1_over_known_rate", "known_rate", "confusion"):
        assert f"<title>{wanted}: " in (folder / "figures" / f"{name}.svg").read_text()


def test_a_control_that_failed_is_no_model(trained: Trained, tmp_path: Path) -> None:
    rows = [{**row, "status": "failed"} if row["objective"] == "cross_entropy" else row for row in trained.rows]

    def evaluate(network: NetworkName) -> dict[str, Any]:
        calibration = replace(trained.split.recipe.calibration, network=network)
        split = replace(trained.split, recipe=replace(trained.split.recipe, calibration=calibration))
        evaluate_run(networks_of(split, trained.folders), split.pretrained, rows, None, tmp_path)
        return read_evaluation(Artefact(tmp_path, ""))

    found = evaluate("auto")
    assert found["method"] == "PROSER"
    assert "the control was not trained, or failed" in found["network"]
    with pytest.raises(TrainingError, match="is control, and the recipe's control was not trained, or failed"):
        evaluate("control")


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        ({"score": "gap", "network": "auto"}, "the score gap reads dummies, which the control does not have"),
        ({"score": "KNNN"}, "no score is called 'KNNN'; did you mean 'KNN'"),
        (
            {"score": "auto", "development": ("digits",)},
            "calibration.development has digits, whose classes or images are known",
        ),
        ({"score": "auto", "development": ("nois",)}, "did you mean 'noise'"),
    ],
)
def test_a_score_or_development_set_that_cannot_be_used_is_refused(
    trained: Trained, calibration: dict[str, Any], message: str
) -> None:
    recipe = trained.split.recipe
    recipe = replace(recipe, calibration=replace(recipe.calibration, **calibration))

    def check() -> None:
        check_score(recipe, can_choose=True)
        check_further(recipe, None)

    with pytest.raises(ConfigError, match=message):
        check()
