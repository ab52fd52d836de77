"""The facts that a report names: what was left out, schedules, seeds, and means over class splits."""

import io
from dataclasses import replace

import pytest
from pipeline_runs import RunFolder, quick_recipe
from reproductions import request
from rich.console import Console

from pipelines.recipes.schedules import PRETRAINING
from pipelines.reproduction.reproducing import mean_metrics, reproduce
from pipelines.reproduction.results import SplitResult
from pipelines.reproduction.studies import facts, resolve
from proser_core.config import FinetuneConfig
from proser_core.errors import DataError

pytestmark = pytest.mark.usefixtures("trains_here", "empty_figures")


def test_means_are_over_class_splits() -> None:
    measured = ((0.5, 60.0), (0.7, 80.0), (0.6, 70.0))
    results = [
        SplitResult("digits", split, "PROSER", {"auroc": auc}, time) for split, (auc, time) in enumerate(measured)
    ]
    assert mean_metrics(results) == {"proser/auroc": pytest.approx(0.6), "proser/seconds": 70}


def test_outlier_sets_that_are_not_there_are_left_out_and_told(folder: RunFolder) -> None:
    wanted = request(folder, "mnist-outliers")
    asked = resolve(wanted, "mnist-outliers")
    assert asked.recipes[0].data.outliers == ("noise",)
    assert list(asked.left_out) == ["omniglot", "mnist-noise"]
    assert "omniglot was not found: no data directory was given; need omniglot/test-*" in asked.left_out["omniglot"]
    assert facts(wanted, [asked], [], {}, {})["omniglot"] == "not measured: its images were not there"


def test_a_report_names_the_schedule_and_that_strong_is_another_one_for_mnist(folder: RunFolder) -> None:
    recipe = replace(quick_recipe(), pretrain=PRETRAINING["strong"](), finetune=FinetuneConfig(epochs=2))
    wanted = request(folder, "mnist-outliers", recipe=recipe)
    told = facts(wanted, [resolve(wanted, "mnist-outliers")], [], {}, {})
    assert "600 epochs of pretraining (sgd, cosine_restarts at 0.1, batches of 128), 2 of fine" in told["schedule"]
    assert "theirs for mnist has RandAugment 8" in told["schedule on MNIST"]
    assert "classifier32, images" in told["schedule"]
    dropped = replace(recipe, network=replace(recipe.network, dropout=0.2))
    told = facts(replace(wanted, recipe=dropped), [], [], {}, {})
    assert "classifier32 with dropout 0.2, images" in told["schedule"]
    out = io.StringIO()
    with pytest.raises(DataError, match="mnist was not found"):
        reproduce(wanted, Console(file=out, width=400))
    assert "mnist-outliers: --pretraining strong is Vaze et al.'s for CIFAR; theirs for mnist has" in out.getvalue()


def test_a_report_names_the_seeds_of_trials_that_know_the_same_classes(folder: RunFolder) -> None:
    wanted = request(folder, "cifar+10", "cifar10", split_indices=(1, 3))
    resolved = [resolve(wanted, name) for name in ("cifar-plus", "cifar10")]
    assert [[recipe.seed for recipe in each.recipes] for each in resolved] == [[1, 3], [0, 0]]
    told = facts(wanted, resolved, [], {}, {})["seed"]
    assert told == "0; of CIFAR10 against CIFAR100, whose trials have the same known classes, 1, 3"
