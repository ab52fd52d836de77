"""Stage figures: the figures of the paper, of what a run of the recipe `figures-mnist` has trained."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipelines.recipes.schedules import schedule_in_words
from pipelines.reports.figures.style import save
from pipelines.reports.sweep_table import images_title
from pipelines.reproduction.paper_figures.beta_densities import beta_densities
from pipelines.reproduction.paper_figures.measured_planes import Trained, boundaries, generated
from pipelines.reproduction.paper_figures.outlier_examples import COLUMNS, outlier_examples
from pipelines.reproduction.paper_figures.page import EXAMPLES, NUMBERS
from pipelines.reproduction.paper_figures.planes import decision_boundaries, novel_embeddings
from pipelines.reproduction.paper_figures.running_time import GENERATIVE, running_time, training_seconds
from pipelines.workflow.trained_split import TrainedSplit
from pipelines.workflow.training import finetunes_of, points_of
from proser_core.config import CalibrationConfig, FinetuneConfig, MixupPlace, Recipe
from proser_core.data.data_sets import DataRoot, open_data_set
from proser_core.data.outliers.outlier_sets import open_outlier_set, outlier_notes
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError, TrainingError
from proser_core.jobs import spec
from proser_core.jobs.network_tables import trained_network
from proser_core.jobs.selection import Row, has_point
from proser_core.networks.nets import make_closed_set_net
from proser_core.recognition.logit_tables import load_logits
from proser_core.store.files import read_json, write_json
from proser_core.store.store import MANIFEST
from proser_core.titles import DATA_SETS
from tune_spaces.mixup_alpha import ALPHAS

WAYS: tuple[MixupPlace, ...] = ("vanilla", "manifold")  # as the paper has them, left and right
EXAMPLE_SIZE = 32  # pixels, as the networks of the outlier protocols see them


def draw_figures(
    split: TrainedSplit,
    trials: Sequence[Row],
    trial_folders: Path,
    outliers: Mapping[str, Sequence[str]],
    data_dir: DataRoot,
    folder: Path,
) -> None:
    """Write every figure as PNG and SVG, and their numbers and notes; `outliers` are names of outlier sets by known
    data set. Raises TrainingError where a fine-tune that is drawn has failed, DataError for damaged images."""
    recipe, images = split.recipe, OpenSetTask.load(split.task.path)
    closed = _trained(recipe, None, split.pretrained.path)
    tuned = {place: _fine_tuned(recipe, trials, trial_folders, place) for place in WAYS}
    names, about = images.class_names, _about_training(recipe, len(images.train))
    title = images_title(recipe.data, [split.index], [recipe.seed])
    schedule = f"{schedule_in_words(recipe.pretrain)}, {recipe.finetune.epochs} more of fine-tuning for PROSER"
    methods, plane = boundaries(recipe, images, closed, tuned["manifold"])
    made, wider = generated(recipe, images, tuned)
    seconds = training_seconds(closed.folder, tuned["manifold"].folder, closed.net, images)
    save(beta_densities(ALPHAS), folder / "beta_densities")
    save(decision_boundaries(methods, plane, names, title), folder / "decision_boundaries")
    save(novel_embeddings(made, wider, names, title), folder / "novel_embeddings")
    save(
        running_time(seconds, f"{about}, class split {split.index}, seed {recipe.seed}; {schedule}"),
        folder / "running_time",
    )
    for known, others in outliers.items():
        save(outlier_examples(example_sets(known, others, data_dir)), folder / f"{EXAMPLES}{known}")
    notes = {f"{EXAMPLES}{known}": outlier_notes(others, data_dir) for known, others in outliers.items()}
    trainings = [read_json(net.folder / MANIFEST) for net in (closed, *tuned.values())]
    facts = {
        "schedule": f"{schedule} on {about}, {recipe.precision}",
        "class split": str(recipe.data.split_index),
        "seed": str(recipe.seed),
        "trained on": "; ".join(sorted({training["made_on"] for training in trainings})),
    }
    numbers = {
        "decision_boundaries": {each.method: {"kept": each.kept, "rejected": dict(each.rejected)} for each in methods},
        "novel_embeddings": {way.mixup: {"taken_as_known": way.in_known_space} for way in made},
        "running_time": {"seconds": seconds, "not_measured": [name for name in GENERATIVE if name not in seconds]},
    }
    write_json(folder / NUMBERS, {**numbers, "notes": notes, "facts": facts})


def check_drawable(recipe: Recipe) -> None:
    """Raises ConfigError for a recipe without a 2-d embedding, without unknown classes or without both ways of mixing,
    one of which may be stopped; for images that are not in memory; and for another score, mirrored images or another
    network, which nothing is drawn by."""
    data = recipe.data
    for is_wrong, told in (
        (not data.unknown_settings, "data.unknown_settings is empty, and unknown classes are drawn; give some, as 1 2"),
        (data.streaming, "data.streaming is on, and images are drawn from memory; give --data.no-streaming"),
        (recipe.stop_early, "stop_early is on, and both ways of mixing are drawn, trained to their end; omit it"),
    ):
        if is_wrong:
            raise ConfigError(told)
    for name in ("score", "mirror", "network"):
        given = getattr(recipe.calibration, name)
        if given != getattr(CalibrationConfig, name):
            raise ConfigError(
                f"calibration.{name} is {given!r}, and the figures show PROSER by its own score, of images as they "
                "are; omit it"
            )
    net = make_closed_set_net(recipe.network, data.num_known, data.image_size, recipe.seed)
    dimensions = net.backbone.embedding_size
    if dimensions != 2:
        raise ConfigError(
            f"network.backbone is {recipe.network.backbone}, whose embedding has {dimensions} dimensions; a plane is "
            "drawn of classifier32_2d"
        )
    points = finetunes_of(recipe, points_of(recipe, recipe.space))
    for place in WAYS:
        if replace(recipe.finetune, mixup=place) not in points:
            raise ConfigError(
                f"space is {recipe.space!r}, in which no fine-tune has {place} mixup at the recipe's point; the space "
                "mixup_place has, and its two ways are drawn side by side"
            )


def _about_training(recipe: Recipe, num_images: int) -> str:
    """What was trained on, and where."""
    data, place = recipe.data, "a GPU (fits on the CPU)" if recipe.cluster.uses_gpu else "CPU cores"
    return f"{DATA_SETS.get(data.name, data.name)}, {data.num_known} classes, {num_images:,} images, {place}"


def example_sets(known: str, others: Sequence[str], data_dir: DataRoot) -> dict[str, np.ndarray]:
    """Test images of a data set, and a few of each outlier set, by title."""
    first = open_data_set(known, data_dir).load("test", size=EXAMPLE_SIZE).images
    assert isinstance(first, np.ndarray)
    loaded = {name: open_outlier_set(name, data_dir).load(size=EXAMPLE_SIZE, count=COLUMNS) for name in others}
    remade = outlier_notes(others, data_dir)
    names = {name: DATA_SETS.get(name, name) + (",\nre-created" if name in remade else "") for name in (known, *others)}
    return {names[name]: images for name, images in {known: first, **loaded}.items()}


def _trained(recipe: Recipe, finetune: FinetuneConfig | None, folder: Path) -> Trained:
    net = trained_network(recipe, finetune, recipe.data.num_known, folder / spec.WEIGHTS)
    return Trained(folder, net, load_logits(folder / spec.LOGITS))


def _fine_tuned(recipe: Recipe, trials: Sequence[Row], trial_folders: Path, place: MixupPlace) -> Trained:
    """The recipe's own point with this way of mixing."""
    finetune = replace(recipe.finetune, mixup=place)
    row = next(row for row in trials if has_point(row, finetune))
    if row["status"] != "finished":
        raise TrainingError(f"the fine-tune with {place} mixup, which is to be drawn, failed: {row['reason']}")
    return _trained(recipe, finetune, trial_folders / row["key"])
