"""The score of a network that development data chooses, and what is reported of the others."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from small_tasks import CPU, labelled, small_task, tiny_closed_set_net, tiny_net

from proser_core.config import CalibrationConfig, Recipe
from proser_core.data.tasks import Labelled
from proser_core.errors import CalibrationError, ConfigError
from proser_core.recognition import embedding_table
from proser_core.recognition.embedding_table import index_rows, task_embeddings
from proser_core.recognition.evaluation import DevelopmentMetrics, evaluate
from proser_core.recognition.logit_tables import SCORED_PARTS, TRAIN, select
from proser_core.recognition.score_choice import candidates, choose_score
from proser_core.recognition.scored_network import score_network
from proser_core.recognition.scores import FURTHER_SCORES, SCORES, MaxLogit, PlaceholderGap
from proser_core.recognition.scoring import score

TASK = replace(small_task(), train=labelled(40, 2, seed=1))
TABLES = task_embeddings(tiny_net(2, 2), TASK, CPU)
OWN = PlaceholderGap(0.5)
UNKNOWN = {"cifar10": TABLES["development"], "noise": select(TABLES["test"], np.arange(4))}


def choice(name, unknown=None, tables=TABLES, own=OWN):
    unknown = UNKNOWN if unknown is None else unknown
    return choose_score(name, own, tables, TASK.train.targets, TASK, 0.8, unknown)


def test_the_chosen_score_has_the_best_mean_macro_f1_over_all_development_unknowns():
    found = choice("auto")
    names = [each.score.name for each in found.reports]
    assert (names[0], sorted(names)) == ("gap", sorted({*SCORES, *FURTHER_SCORES}))
    means = {each.score.name: np.mean([each.development[name].macro_f1 for name in UNKNOWN]) for each in found.reports}
    assert means[found.chosen.score.name] == max(means.values())
    for name, best in found.best.items():
        every = {each.score.name: each.development[name].macro_f1 for each in found.reports}
        assert every[best] == max(every.values())


def test_a_set_without_a_macro_f1_is_left_out_of_the_mean() -> None:
    each = {name: DevelopmentMetrics(None, value, 1.0, 1.0) for name, value in (("a", 0.9), ("b", 0.3), ("c", None))}
    report = choice("MaxLogit").chosen
    assert replace(report, development=each).mean_macro_f1 == pytest.approx(0.6)
    assert replace(report, development={}).mean_macro_f1 == 0.0


def test_metrics_on_each_set_of_development_unknowns_are_those_of_an_evaluation_by_it():
    noise = replace(TASK, development=Labelled(TASK.test.images[:4], np.full(4, 2)))
    for each in choice("auto").reports:
        assert each.evaluation == evaluate(TABLES, each.score, TASK, 0.8)
        by_noise = evaluate({**TABLES, "development": UNKNOWN["noise"]}, each.score, noise, 0.8)
        assert each.development == {"cifar10": each.evaluation.development, "noise": by_noise.development}


@dataclass(frozen=True)
class Counted(MaxLogit):
    """Keeps the number of images of each table that it scores."""

    name = "counted"
    scored: list[int]

    def __call__(self, logits):
        self.scored.append(len(logits))
        return super().__call__(logits)


def test_each_table_is_scored_once():
    counted = Counted([])
    found = choice("counted", own=counted)
    assert counted.scored == [len(TABLES[part]) for part in SCORED_PARTS] + [len(UNKNOWN["noise"])]
    plain = choice("MaxLogit")
    assert (found.chosen.evaluation, found.chosen.development) == (plain.chosen.evaluation, plain.chosen.development)


def test_a_classifier_is_made_of_the_decisions_of_its_evaluation():
    counted, net = Counted([]), tiny_net(2, 2)
    made = score_network(Recipe(), counted, TABLES, TASK).classifier(net, TASK, Recipe())
    assert counted.scored == [len(TABLES[part]) for part in SCORED_PARTS]
    of_each = [MaxLogit()(TABLES[part]) for part in ("val", "development")]
    np.testing.assert_array_equal(made.validation_scores.scores, np.concatenate(of_each))
    called = score(TABLES["test"], MaxLogit(), made.calibration).predictions
    np.testing.assert_array_equal(made.classes.confusion.sum(axis=0), np.bincount(called, minlength=3))


def test_a_tie_goes_to_the_own_score_and_test_images_choose_nothing():
    tied = choice("auto", unknown={})
    assert tied.chosen.score is OWN
    assert tied.best == {}
    tested = replace(TASK, test=replace(TASK.test, targets=np.roll(TASK.test.targets, 1)))
    other = choose_score("auto", OWN, TABLES, TASK.train.targets, tested, 0.8, UNKNOWN)
    assert other.chosen.score.name == choice("auto").chosen.score.name


def test_a_score_is_named_instead_of_chosen():
    found = choice("KNN")
    assert found.chosen.score.name == "KNN"
    assert found.in_words().startswith("KNN, named in advance; ")
    assert choice("gap").chosen.score is OWN  # with the recipe's weight
    assert choice("auto").in_words().count(" on ") == 3  # the sentence and two sets


def test_a_network_has_the_scores_that_it_can_have():
    closed_set = task_embeddings(tiny_closed_set_net(2), TASK, CPU)
    names = {kind.name for kind in candidates(closed_set)}
    assert names == {*SCORES, *FURTHER_SCORES} - {"gap", "p(unknown)"}
    assert "OpenMax" not in {kind.name for kind in candidates({part: closed_set[part] for part in SCORED_PARTS})}
    with pytest.raises(ConfigError, match="no score of this network is called 'gap'"):
        choice("gap", tables=closed_set, own=MaxLogit())


def test_a_score_that_cannot_be_fitted_is_left_out_with_its_reason_unless_it_is_named():
    lacking = {**TABLES, TRAIN: select(TABLES[TRAIN], np.arange(0, 40, 2))}  # one class alone
    targets = TASK.train.targets[::2]
    found = choose_score("auto", OWN, lacking, targets, TASK, 0.8, UNKNOWN)
    assert list(found.failures) == ["OpenMax"]
    assert "OpenMax" not in found.to_json()["scores"]
    with pytest.raises(CalibrationError, match="OpenMax"):
        choose_score("OpenMax", OWN, lacking, targets, TASK, 0.8, UNKNOWN)


def test_a_recipe_decides_whether_a_score_is_chosen_and_which_unknowns_count():
    plain = score_network(Recipe(), OWN, TABLES, TASK)
    assert (plain.score, plain.choice) == (OWN, None)
    calibration = CalibrationConfig(score="auto", development=("noise",), target_rate=0.8)
    tables = {**TABLES, "noise": UNKNOWN["noise"]}
    found = score_network(Recipe(calibration=calibration), OWN, tables, TASK)
    assert found.choice.to_json() == choice("auto").to_json()
    classifier = found.classifier(tiny_net(2, 2), TASK, Recipe(calibration=calibration))
    assert classifier.notes["Score"] == found.choice.in_words()
    assert classifier.fitting.targets.tolist() == TASK.train.targets.tolist()


def test_a_large_set_is_scored_with_the_targets_of_the_images_that_the_seed_drew(monkeypatch):
    monkeypatch.setattr(embedding_table, "INDEX_SIZE", 20)
    recipe = Recipe(seed=3)
    tables = task_embeddings(tiny_net(2, 2), TASK, CPU, seed=3)
    found = score_network(recipe, OWN, tables, TASK)
    assert found.targets.tolist() == TASK.train.targets[index_rows(TASK, 3)].tolist()
    assert found.targets.tolist() != TASK.train.targets[index_rows(TASK, 0)].tolist()


def test_development_unknowns_have_the_name_that_is_given_and_none_without_an_image():
    recipe = Recipe(calibration=CalibrationConfig(score="KNN"))
    named = score_network(recipe, OWN, TABLES, TASK, development="photos of others")
    assert list(named.choice.best) == ["photos of others"]
    assert list(score_network(recipe, OWN, TABLES, TASK).choice.best) == [recipe.data.development]
    nothing = np.zeros(0, int)
    without = {**TABLES, "development": select(TABLES["development"], nothing)}
    task = replace(TASK, development=Labelled(TASK.development.images[:0], nothing))
    alone = score_network(recipe, OWN, without, task).choice
    assert alone.best == {}
    assert " on " not in alone.in_words()


def test_further_development_unknowns_belong_to_a_choice():
    with pytest.raises(ConfigError, match="development"):
        CalibrationConfig(development=("noise",))
    with pytest.raises(ConfigError, match="development"):
        CalibrationConfig(score="auto", development=("noise", "noise"))
