"""The figures of the paper from what is in a storage: small trainings of digits, without Ray."""

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipeline_runs import RunFolder, printed
from rich.console import Console
from training_jobs import ignore, tiny_recipe

import pipelines.reproduction.paper_figures.stage as stage
from pipelines.recipes import figures_mnist
from pipelines.reproduction import dag
from pipelines.reproduction.figures import reproduce_figures
from pipelines.reproduction.paper_figures.measured_planes import Trained, boundaries, shown
from pipelines.reproduction.paper_figures.page import write_figures_page
from pipelines.reproduction.request import FiguresRequest
from pipelines.storage.storage import Storage
from pipelines.workflow import dag as workflow_dag
from pipelines.workflow.session import TrainingSession, driver_of
from pipelines.workflow.trained_split import TrainedSplit
from pipelines.workflow.training import points_of
from proser_core.baselines import METHODS
from proser_core.config import NetworkConfig
from proser_core.data.splits.drawing import draw_split
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError, TrainingError
from proser_core.jobs import spec
from proser_core.jobs.preparing import save_task
from proser_core.jobs.spec import Job
from proser_core.jobs.worker import run_job
from proser_core.networks.nets import make_closed_set_net
from proser_core.networks.weights import load_weights
from proser_core.recognition.logit_tables import load_logits
from proser_core.store.files import read_json
from proser_core.store.store import MANIFEST, Artefact, write_manifest

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Stored:
    """A class split with its network, and the rows of its trials, in a store."""

    split: TrainedSplit
    trials: list[dict[str, Any]]
    store: Storage

    def draw(self, folder: Path, trials: list[dict[str, Any]]) -> None:
        stage.draw_figures(self.split, trials, self.store.root / spec.TRIALS, {}, None, folder)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    root = tmp_path_factory.mktemp("figures")
    tiny, network = tiny_recipe(epochs=1), NetworkConfig(backbone="classifier32_2d")
    recipe = replace(tiny, space="mixup_place", network=network, data=replace(tiny.data, unknown_settings=(1, 2)))
    save_task(recipe, None, root / "task")
    task = write_manifest(root / "task", {})
    run_job(Job.of("pretrain", recipe, task, root / "pretrained", False), ignore)
    pretrained = Artefact(root / "pretrained", "weights")
    store, rows = Storage(root / "storage"), []
    split = TrainedSplit(recipe, task, pretrained)
    for trial in split.trials(points_of(recipe, recipe.space), store):
        run_job(trial.job(task, pretrained), ignore)
        rows.append({"key": trial.key, "params": trial.params(), "status": "finished", "reason": ""})
    return Stored(split, rows, store)


@pytest.fixture(scope="module")
def drawn(stored: Stored, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    stored.draw(folder, stored.trials)
    return folder


def test_every_figure_is_drawn_and_its_numbers_are_those_of_the_stored_logits(stored: Stored, drawn: Path) -> None:
    stems = ("beta_densities", "decision_boundaries", "novel_embeddings", "running_time")
    assert {path.name for path in drawn.iterdir()} == {
        "figures.json",
        *(f"{stem}.{ending}" for stem in stems for ending in ("png", "svg")),
    }
    numbers = read_json(drawn / "figures.json")
    task = OpenSetTask.load(stored.split.task.path)
    logits = load_logits(stored.split.pretrained.path / spec.LOGITS)
    bias = np.sort(logits["val"].known.max(axis=1))[len(logits["val"]) - int(np.ceil(0.95 * len(logits["val"])))]
    rejected = logits["test"].known.max(axis=1) < bias
    drawn = numbers["decision_boundaries"]["MaxLogit"]
    for number in task.split.unknown:
        assert drawn["rejected"][f"class {number}"] == pytest.approx(rejected[task.test_classes == number].mean())
    assert drawn["kept"] == pytest.approx(1 - rejected[task.test.targets < 5].mean())
    assert set(numbers["novel_embeddings"]) == {"vanilla", "manifold"}
    seconds = numbers["running_time"]["seconds"]
    fitted = [method.name for method in METHODS.values() if method.scores_pretrained and method.score.reads_training]
    assert list(seconds) == ["MSP", *fitted, "PROSER"]
    assert seconds["MSP"] == read_json(stored.split.pretrained.path / MANIFEST)["seconds"] > 0
    assert all(seconds[name] > seconds["MSP"] for name in (*fitted, "PROSER"))
    assert numbers["running_time"]["not_measured"] == ["OSRCI", "GFROSR"]


def closed_set(stored: Stored) -> Trained:
    net = make_closed_set_net(stored.split.recipe.network, 5, 8, 0)
    load_weights(net, stored.split.pretrained.path / spec.WEIGHTS)
    return Trained(stored.split.pretrained.path, net, load_logits(stored.split.pretrained.path / spec.LOGITS))


def test_the_region_at_a_test_image_is_the_decision_about_it(stored: Stored) -> None:
    task, closed = OpenSetTask.load(stored.split.task.path), closed_set(stored)
    methods, grid = boundaries(stored.split.recipe, task, closed, closed_as_tuned(stored))
    for method in methods[:2]:
        columns = np.abs(method.known[:, :1] - grid.x).argmin(axis=1)
        rows = np.abs(method.known[:, 1:] - grid.y).argmin(axis=1)
        accepted = method.regions[rows, columns] < 5
        assert accepted.mean() == pytest.approx(method.kept, abs=0.03)  # a grid has steps, and not all are drawn
    assert [method.method for method in methods] == ["MSP", "MaxLogit", "PROSER"]


def closed_as_tuned(stored: Stored) -> Trained:
    return stage._fine_tuned(stored.split.recipe, stored.trials, stored.store.root / spec.TRIALS, "manifold")


def test_what_is_shown_are_images_of_every_class(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.reproduction.paper_figures.measured_planes.SHOWN_KNOWN", 4)
    monkeypatch.setattr("pipelines.reproduction.paper_figures.measured_planes.SHOWN_NOVEL", 3)
    found = shown(closed_set(stored), OpenSetTask.load(stored.split.task.path))
    assert found.known.shape == (20, 2)
    assert np.bincount(found.targets).tolist() == [4] * 5
    assert [len(places) for places in found.novel.values()] == [3, 3]


def test_a_fine_tune_that_failed_is_named(stored: Stored, tmp_path: Path) -> None:
    failed = [
        {**row, "status": "failed", "reason": "not finite"} if row["params"]["mixup"] == "vanilla" else row
        for row in stored.trials
    ]
    with pytest.raises(TrainingError, match=r"with vanilla mixup, which is to be drawn, failed: not finite"):
        stored.draw(tmp_path / "figures", failed)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"network": NetworkConfig(backbone="classifier32")}, "128 dimensions; a plane is drawn of classifier32_2d"),
        ({"space": ""}, r"space is '', in which no fine-tune has vanilla mixup .* the space mixup_place has"),
        ({"data": replace(figures_mnist().data, unknown_settings=())}, "unknown classes are drawn"),
        ({"data": replace(figures_mnist().data, streaming=True)}, "give --data.no-streaming"),
        ({"stop_early": True}, "stop_early is on"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_anything_is_trained(
    changes: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=told):
        printed(
            reproduce_figures,
            FiguresRequest(replace(figures_mnist(), **changes), storage=tmp_path),
            "proser reproduce figures",
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("trains_here", "empty_figures")
def test_the_run_of_the_figures_ends_as_finished_once_they_are_logged(run_folder: RunFolder) -> None:
    tiny, network = tiny_recipe(epochs=1), NetworkConfig(backbone="classifier32_2d")
    recipe = replace(tiny, space="mixup_place", network=network, data=replace(tiny.data, unknown_settings=(1, 2)))
    assert printed(reproduce_figures, FiguresRequest(recipe, storage=run_folder.storage), "")[0] == 0
    (run,) = run_folder.parents()
    assert run.info.status == "FINISHED"
    assert "report.html" in run_folder.files(run.info.run_id)


def test_the_page_holds_every_figure_and_what_stands_in_it(drawn: Path, tmp_path: Path) -> None:
    write_figures_page(drawn, "proser reproduce figures --seed 1", tmp_path)
    assert {path.name for path in drawn.iterdir()} | {"report.html", "results.md"} == {
        path.name for path in tmp_path.rglob("*.*")
    }
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 4
    assert "<li>MaxLogit: known kept" in page
    assert "proser reproduce figures --seed 1" in page
    assert "± is the standard deviation" not in page  # it has no table
    assert 'id="decision-boundaries"' in page
    told = (tmp_path / "results.md").read_text()
    for line in ("- vanilla mixup: ", "Figure: `figures/running_time.svg`", "- MSP: "):
        assert line in told
    assert "1 epoch of pretraining (sgd, one_cycle at 0.05, batches of 32), 1 more" in told


def test_the_stage_is_found_again_and_says_what_it_could_not_draw(stored: Stored) -> None:
    nothing: Any = None  # of a cluster and of tracking
    console = Console(file=io.StringIO(), width=200)
    session = TrainingSession(stored.store, nothing, nothing, console, nothing)

    def drawn() -> Artefact:
        outliers = {"digits": ("noise",), "mnist": ("omniglot", "noise")}
        inputs = {"outliers": outliers, "session": session, "store": stored.store, "data_dir": None}
        before = {"splits": [stored.split], "trials": stored.trials}
        return driver_of(workflow_dag, dag).execute(["drawn"], inputs=inputs, overrides=before)["drawn"]

    first = drawn()
    assert (first.path / "outlier_examples_digits.png").is_file()
    assert not (first.path / "outlier_examples_mnist.png").exists()
    said = console.file.getvalue()
    assert said == "  no examples of omniglot, noise for mnist: their images were not found\n"
    assert drawn() == first
    assert list(stored.store.ran) == ["figures"]


def test_the_recipe_knows_the_papers_classes_and_draws_what_the_figures_need() -> None:
    recipe = figures_mnist()
    split = draw_split(recipe.data, 10)
    assert split.known == (0, 1, 2, 3)
    assert split.unknown == (4, 5)
    assert {point.mixup for point in points_of(recipe, recipe.space)} == {"manifold", "vanilla"}
    assert recipe.finetune in points_of(recipe, recipe.space)
