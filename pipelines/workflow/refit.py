"""A run that knows every class, as for images of your own: a proxy, the same training with some classes held out as
unknown, chooses the hyperparameters; then all classes are trained on."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pipelines.tracking.runs import ParentRun
from pipelines.workflow.checks import check_classes, check_run
from pipelines.workflow.own_images import pointing_to_inspection, what_needs_a_look
from pipelines.workflow.plan.trainings import plan_splits
from pipelines.workflow.running import REPORTED, open_run_of, run_and_register, run_and_report
from pipelines.workflow.session import Session, mark_run_failed, say_failures, warn_of_mirror
from pipelines.workflow.stages.evaluate import CLASSIFIER, read_evaluation
from pipelines.workflow.stages.images import prepare
from pipelines.workflow.stages.trial_rows import failures_of
from pipelines.workflow.training import TrainingInputs, finetunes_of, spaces_of
from proser_core.config import CalibrationConfig, DataConfig, FinetuneConfig, Recipe
from proser_core.config.calibration import AUTO
from proser_core.data.data_sets import DataRoot, open_data_set
from proser_core.data.splits.drawing import draw_split
from proser_core.data.tasks import OpenSetTask, TaskSummary
from proser_core.errors import ConfigError, DataError
from proser_core.jobs.preparing import prepare_inputs
from proser_core.jobs.selection import finetune_of, num_compared
from proser_core.recognition.calibration import images_needed
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.validation_scores import Proxy
from proser_core.titles import PROSER, counted, first_names, percent

HELD_OUT = 0.2
"""Share of the classes that chooses, and as many again that only report; at least one, where two stay known."""
ALL_CLASSES = "all classes"
FEW, DRAWS = 0.25, 1000
"""A class of fewer images than this share of the median class is not held out, where one of so many draws avoids it:
a handful of images can choose nothing."""
TRIES = 20
"""Draws of which each is tried where groups of images leave the one before without images to train on or choose by."""


def choose_and_refit(recipe: Recipe, num_classes: int, data_dir: DataRoot, session: Session, started: float) -> int:
    """Read all images, run the proxy's stages, then those of the refit; the exit code as of a run. Raises DataError for
    fewer than two classes."""
    with pointing_to_inspection(recipe.data, data_dir):
        recipes = _recipes(recipe, num_classes, data_dir)
        # what is refused is refused before the images are read
        *_, inputs = (check_run(each, data_dir) for each in recipes.values())
    session.cluster.check()
    run = open_run_of(session.store, recipe, replace(inputs, spaces=spaces_of(recipe)), ["refit"])
    with mark_run_failed(session.follow(run)):
        session.tracking.track(run.start)
        task = _read_images(recipes[ALL_CLASSES], inputs, data_dir, session)
        if recipe.data.flip == "auto":
            recipes = {name: replace(each, data=task.augmented(each.data)) for name, each in recipes.items()}
            warn_of_mirror(recipes[ALL_CLASSES], session.console)
        refit, proxied = recipes[ALL_CLASSES], recipes.get("proxy")
        chosen = _choose_on_proxy(proxied, recipe.calibration, task, data_dir, session, run)
        refit = with_batches(refit, len(task.train) if chosen is None else chosen.num_trained)
        if chosen is not None:
            refit = replace(refit, finetune=chosen.finetune, calibration=chosen.calibration)
            chooses = recipe.space or AUTO in (recipe.calibration.score, recipe.calibration.network)
            how = "with what the proxy chose" if chooses else "with the recipe's own point"
            session.say(f"all {num_classes} classes, {how}: {chosen.name}")
    proxy = None if chosen is None else chosen.proxy
    inputs = replace(inputs, recipes=[refit], finetunes=finetunes_of(refit, []), proxy=proxy)
    failed = chosen is not None and chosen.has_failures
    return max(int(failed), run_and_register(inputs, session.follow(run), started))


def _read_images(refit: Recipe, inputs: TrainingInputs, data_dir: DataRoot, session: Session) -> OpenSetTask:
    """The images of all classes, and what is said of them."""
    with pointing_to_inspection(refit.data, data_dir):
        task = OpenSetTask.load(prepare(refit, inputs.data_inputs[0], data_dir, session).path)
    _say_classes(session, task)
    for line in _few_to_calibrate(len(task.val), refit.calibration.target_rate):
        session.say(line)
    if refit.data.is_own:
        for line in what_needs_a_look(task, refit.data, data_dir):
            session.say(f"  {line}")
    return task


def _few_to_calibrate(count: int, target_rate: float) -> Iterator[str]:
    if target_rate < 1 and count < (needed := images_needed(target_rate)):
        yield (
            f"  {counted(count, 'validation image')} to calibrate by; to keep {percent(target_rate)} % known takes "
            f"{needed}: add images, or `proser calibrate` the model on more"
        )


def planned_inputs(recipe: Recipe, num_classes: int, data_dir: DataRoot, session: Session) -> dict[str, TrainingInputs]:
    """The inputs of both trainings for a plan, by name, as if classes had equally many images; what the proxy will
    choose is not known yet. Raises ProserError."""
    with pointing_to_inspection(recipe.data, data_dir):
        recipes = _recipes(recipe, num_classes, data_dir)
        first = check_run(next(iter(recipes.values())), data_dir)
    session.cluster.check()
    size = plan_splits(first, session.store)[0].images["train"]
    return {name: check_run(with_batches(each, size), data_dir) for name, each in recipes.items()}


def _recipes(recipe: Recipe, num_classes: int, data_dir: DataRoot) -> dict[str, Recipe]:
    """The recipes of both trainings by name, before the images are read: the proxy's, if any, and the refit's."""
    refit = refit_of(recipe, num_classes)  # which refuses a single class
    counts = open_data_set(recipe.data.name, data_dir).class_counts() if recipe.data.is_own else np.ones(num_classes)
    proxy = proxy_of(recipe, counts)
    return ({} if proxy is None else {"proxy": proxy}) | {ALL_CLASSES: refit}


def proxy_of(recipe: Recipe, counts: np.ndarray) -> Recipe | None:
    """The recipe with classes held out, or None where there are too few. `counts` int64[K] are the images of each
    class: the class split is `_drawn` by them."""
    num_classes = len(counts)
    if num_classes == 2:
        return None
    held_out = min(max(1, round(HELD_OUT * num_classes)), num_classes - 2)
    reported = min(held_out, num_classes - 2 - held_out)
    data = replace(
        recipe.data,
        num_known=num_classes - held_out - reported,
        unknown_settings=(reported,) if reported else (),
        development=f"held-out-{held_out}",
    )
    return replace(recipe, name=f"{recipe.name}-proxy", data=_drawn(data, counts))


def _drawn(data: DataConfig, counts: np.ndarray) -> DataConfig:
    """With the first class split, from its own on, that holds out no class of few images; its own where each does."""
    few = counts < FEW * np.median(counts)
    drawn = (replace(data, split_index=data.split_index + number) for number in range(DRAWS))
    return next((each for each in drawn if not few[_held_out(each, len(counts))].any()), data)


def _held_out(data: DataConfig, num_classes: int) -> list[int]:
    split = draw_split(data, num_classes)
    return [*split.development, *split.unknown]


def refit_of(recipe: Recipe, num_classes: int) -> Recipe:
    """The recipe on all classes with its own fine-tune alone. Raises DataError for fewer than two classes."""
    check_classes(recipe.data, num_classes)
    data = replace(recipe.data, num_known=num_classes)
    return replace(recipe, data=data, space="", stop_early=False, calibration=_without_choice(recipe.calibration))


def with_batches(recipe: Recipe, size: int) -> Recipe:
    """The recipe with batches of `size` training images at most, which its workers can share. Raises ConfigError where
    there are fewer images than workers need."""
    cluster = recipe.cluster
    workers = range(cluster.fewest_workers, cluster.num_workers + 1)
    parts = math.lcm(*(2 * number for number in workers), cluster.pretrain_workers)
    if size < parts:
        raise ConfigError(
            f"{recipe.name} has {size} training images, and its workers need {parts} for a batch; add images, or lower "
            "cluster.num_workers and cluster.pretrain_workers"
        )
    largest = size // parts * parts
    pretrain, finetune = recipe.pretrain, recipe.finetune
    return replace(
        recipe,
        pretrain=replace(pretrain, batch_size=min(pretrain.batch_size, largest)),
        finetune=replace(finetune, batch_size=min(finetune.batch_size, largest)),
    )


@dataclass(frozen=True)
class _Chosen:
    """The results of the proxy, and what it chose: the fine-tune, with its name, the score and the network; it was
    trained on so many images."""

    proxy: Proxy
    finetune: FinetuneConfig
    calibration: CalibrationConfig
    name: str
    has_failures: bool
    num_trained: int = 0


def _choose_on_proxy(
    proxy: Recipe | None,
    calibration: CalibrationConfig,
    task: OpenSetTask,
    data_dir: DataRoot,
    session: Session,
    whole: ParentRun,
) -> _Chosen | None:
    """Run the proxy on the images of all classes, whose run is `whole`. None where there is none, or no class split has
    images for each of its parts; that is said, with what of `calibration` would have been chosen."""
    why = "2 classes are too few for a proxy"
    for _ in range(TRIES):
        if proxy is None:
            break
        try:
            images = prepare(proxy, prepare_inputs(proxy, data_dir), data_dir, session)
        except DataError as error:  # of this class split: all images are read
            why = f"a proxy cannot be made ({error})"
            following = replace(proxy.data, split_index=proxy.data.split_index + 1)
            proxy = replace(proxy, data=_drawn(following, _counts(task)))
        else:
            size = TaskSummary.read(images.path).counts["train"]
            chosen = _choose(with_batches(proxy, size), task.class_names, data_dir, session, whole)
            return replace(chosen, num_trained=size)
    kept = ["fine-tune", *(each for each in ("score", "network") if getattr(calibration, each) == AUTO)]
    session.say(
        f"  {why}: nothing is chosen ({', '.join(kept)}: as the recipe has it), and how well unknown images are found "
        "is not measured"
    )
    return None


def _choose(
    recipe: Recipe, class_names: tuple[str, ...], data_dir: DataRoot, session: Session, whole: ParentRun
) -> _Chosen:
    """Run the proxy; `class_names` are those of all classes by number."""
    inputs = check_run(recipe, data_dir)
    run = open_run_of(session.store, recipe, inputs)
    session.tracking.track(whole.join_proxy, run.run_id)
    split = draw_split(recipe.data, len(class_names))
    chose, reported = (tuple(class_names[number] for number in ids) for ids in (split.development, split.unknown))
    session.say(
        f"proxy: {split.num_known} classes are known; {first_names(chose)} held out to choose by"
        + (f", {first_names(reported)} to test by" if reported else "")
        + f"; batches of {recipe.pretrain.batch_size} and {recipe.finetune.batch_size}"
    )
    results = run_and_report(inputs, session.follow(run))
    session.say(f"Figures and tables of the proxy: {results[REPORTED].path}")
    failures = failures_of(results["trials"])
    say_failures(session, failures)
    session.say("")
    classifier = OpenSetClassifier.load(results["evaluated"].path / CLASSIFIER)
    evaluation = read_evaluation(results["evaluated"])
    assert classifier.validation_scores is not None
    measured = evaluation["methods"][evaluation["method"]]
    num_points = num_compared(results["trials"])
    proxy = Proxy(classifier.validation_scores, classifier.calibration.bias, measured, chose, reported, num_points)
    point, model = evaluation["point"], evaluation["selected"]
    is_control = evaluation["method"] != PROSER
    calibration = with_chosen(recipe.calibration, evaluation["score"]["name"], is_control)
    name = f"{model['name']}, in place of {point['name']}" if is_control else point["name"]
    return _Chosen(proxy, finetune_of(point), calibration, name, bool(failures))


def with_chosen(calibration: CalibrationConfig, score: str, is_control: bool) -> CalibrationConfig:
    """What the proxy chose, as the score and the network that all classes are then trained for."""
    chosen = replace(_without_choice(calibration), network="control" if is_control else "proser")
    return replace(chosen, score=score) if calibration.score else chosen


def _without_choice(calibration: CalibrationConfig) -> CalibrationConfig:
    """Where every class is known nothing can choose: the proxy does, or score and network are the recipe's own."""
    if calibration.score == AUTO:
        calibration = replace(calibration, score="", development=())
    return replace(calibration, network="proser") if calibration.network == AUTO else calibration


def _counts(task: OpenSetTask) -> np.ndarray:
    """int64[K]: images of each class in all parts."""
    targets = np.concatenate([part.targets for part in (task.train, task.val, task.test)])
    return np.bincount(targets, minlength=task.num_known)


def _say_classes(session: Session, task: OpenSetTask) -> None:
    """What was found, so that folders that are no classes are noticed."""
    found = (f"{name} ({count})" for name, count in zip(task.class_names, _counts(task), strict=True))
    session.say(f"{task.num_known} classes, with their images: {first_names(tuple(found))}")
