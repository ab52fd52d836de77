"""Plan of the trainings of a run, a sweep or a reproduction: what is cached, what must be trained, estimated cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapreplace
from itertools import chain, zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipelines.cluster.cluster import Cluster
from pipelines.cluster.train_worker import measure_training_step
from pipelines.storage.storage import Storage, find_artefact
from pipelines.workflow.checks import expected_images
from pipelines.workflow.stages.halving import epochs_left, fallen_behind
from pipelines.workflow.trained_split import TrainedSplit
from pipelines.workflow.training import TrainingInputs
from proser_core.config import Recipe, to_json
from proser_core.data.tasks import TaskSummary
from proser_core.errors import ClusterError
from proser_core.jobs.preparing import prepare_key
from proser_core.jobs.probe import StepCost, measure_heads
from proser_core.jobs.spec import EMBEDDINGS, PREPARE, embedding_inputs
from proser_core.jobs.trials import Trial, plan_pretraining
from proser_core.store.store import load_if_complete


@dataclass(frozen=True)
class SplitPlan:
    """One class split: what of it is finished, and what is to be trained."""

    recipe: Recipe
    prepared: bool
    pretrained: bool
    """Whether the weights are there, a user's own too."""
    images: dict[str, int]
    """Number of images by role."""
    trials: int
    missing: int
    """Trials that are still to be trained."""
    epochs: Sequence[Sequence[int]]
    """Epochs left of each of these: first those that go through, then by rung those that may be stopped early."""
    embedded: bool = False
    """Whether the embeddings of a frozen backbone are there."""
    embedded_before: int = 0
    """Images whose embeddings another plan has computed before."""
    folders: tuple[Path, ...] = ()
    """The folders of the next trainings, which are the pretraining or the points."""

    @property
    def needs_embeddings(self) -> int:
        """Images whose embeddings the pretraining takes, computed already or not."""
        return self.scored_pretrained if self.recipe.network.is_frozen("pretrain") else 0

    @property
    def embeds(self) -> int:
        """Images whose embeddings the pretraining waits for."""
        return 0 if self.pretrained or self.embedded else max(0, self.needs_embeddings - self.embedded_before)

    @property
    def scored(self) -> int:
        """Images that each network scores."""
        return self.images["val"] + self.images["development"] + self.images["test"]

    @property
    def scored_pretrained(self) -> int:
        """Images that the pretrained network scores: the training images too, to which methods are fitted."""
        return self.scored + self.images["train"]


@dataclass(frozen=True)
class Cost:
    """Cost of one kind of training: a measured step, the cores of a worker, how many are trained at a time, and for how
    many of them the nodes have memory (None where that is not known)."""

    step: StepCost
    cpus: int
    at_once: int
    fit: int | None

    def seconds(self, steps: float, scored: int) -> float:
        """Time of a training of so many steps and images to score."""
        return steps * self.step.step_seconds + scored / self.step.scored_per_second


Costs = dict[str, Cost]
"""By kind, `pretrain` and `finetune`, of those that are to be trained."""
TRAININGS = {"pretrain": "pretraining", "finetune": "fine-tune"}
"""What the plan calls one of a kind."""


def plan_splits(inputs: TrainingInputs, store: Storage) -> list[SplitPlan]:
    """What is done of each class split, by the storage."""
    return [
        _plan_split(recipe, data, inputs, store)
        for recipe, data in zip(inputs.recipes, inputs.data_inputs, strict=True)
    ]


def _plan_split(recipe: Recipe, data_inputs: dict[str, Any], inputs: TrainingInputs, store: Storage) -> SplitPlan:
    # as many, of any key: the keys of trials are not known before the pretraining
    trials = [Trial(replace(recipe, finetune=each), "", {}, store.root / "none") for each in inputs.finetunes]
    stoppable, checkpoint = frozenset(inputs.stoppable), inputs.pretrained_file
    task = find_artefact(store, store.folder(PREPARE, prepare_key(data_inputs)))
    plan = SplitPlan(
        recipe,
        prepared=task is not None,
        pretrained=checkpoint is not None,
        images=expected_images(recipe, inputs.data_dir) if task is None else TaskSummary.read(task.path).counts,
        trials=len(trials),
        missing=len(trials),
        epochs=epochs_left(trials, stoppable),
    )
    if task is None:
        return plan
    folder = plan_pretraining(recipe, task, store.root, own=checkpoint).folder
    pretrained = find_artefact(store, folder)
    if pretrained is None:
        is_frozen = recipe.network.is_frozen("pretrain")
        embeddings = is_frozen and find_artefact(store, store.folder(EMBEDDINGS, embedding_inputs(recipe, task)))
        return replace(plan, embedded=bool(embeddings), folders=(folder,))
    trials = TrainedSplit(recipe, task, pretrained).trials(inputs.finetunes, store)
    store.sync([trial.folder for trial in trials])
    store.poll([trial.folder for trial in trials])
    behind = fallen_behind([trial for trial in trials if trial.recipe.finetune in stoppable])
    missing = sum(trial.key not in behind and load_if_complete(trial.folder) is None for trial in trials)
    points = tuple(trial.folder for trial in trials if not trial.is_control)  # which other points share
    left = epochs_left(trials, stoppable)
    return replace(plan, pretrained=True, trials=len(trials), missing=missing, epochs=left, folders=points)


def has_begun(plans: Sequence[SplitPlan], store: Storage) -> bool:
    """Whether there is a pretraining of these in the storage or, where that is finished, a point of the fine-tunes."""
    folders = [folder for plan in plans for folder in plan.folders]
    store.poll(folders)
    return any(folder.is_dir() for folder in folders)


def measure(plans: Sequence[SplitPlan], cluster: Cluster, known: Mapping[str, Cost] = MappingProxyType({})) -> Costs:
    """Take a few steps of each kind of training that is missing, on workers of the cluster; `known` are costs of the
    same trainings on other classes, which are not measured again. Raises ClusterError where they do not fit into a
    worker's share of a GPU."""
    recipe = plans[0].recipe
    # which weights a step begins from does not change what it costs, and not all machines may have the file
    recipe = replace(recipe, network=replace(recipe.network, weights_file=""))
    missing = {"pretrain": sum(not plan.pretrained for plan in plans), "finetune": sum(plan.missing for plan in plans)}
    # the cluster is not asked where nothing is missing: that would start Ray
    return {kind: _cost(kind, count, recipe, plans, cluster, known) for kind, count in missing.items() if count}


def _cost(
    kind: str, count: int, recipe: Recipe, plans: Sequence[SplitPlan], cluster: Cluster, known: Mapping[str, Cost]
) -> Cost:
    """What `count` trainings of a kind cost, measured unless it is known."""
    if recipe.network.is_frozen(kind):
        return Cost(measure_heads(kind, recipe), recipe.cluster.cpus_per_worker, 1, None)  # type: ignore[arg-type]
    _, workers = recipe.training(kind)
    used = cluster.with_idle_cores(len(plans), workers) if kind == "pretrain" else cluster
    at_once = max(1, min(used.concurrent_jobs(workers), count))
    if kind in known and known[kind].at_once == at_once:
        return known[kind]
    copies = min(at_once * workers, 4)  # side by side, as the trainings will be
    fields = to_json(replace(recipe, cluster=used.config))
    measured = used.call_on_workers(measure_training_step, (kind, fields), copies)
    step = max(measured, key=lambda step: step.step_seconds)
    step = replace(step, memory_bytes=max(each.memory_bytes for each in measured))
    if step.device_total:
        step = replace(step, device_bytes=step.device_bytes + max(bytes_of_crops(plan) for plan in plans))
    _check_memory(recipe, kind, step)
    return Cost(step, used.config.cpus_per_worker, at_once, cluster.fitting(step.memory_bytes, workers))


def bytes_of_crops(plan: SplitPlan) -> int:
    """Bytes of the training images that lie on a GPU, padded and mirrored."""
    data = plan.recipe.data.decided(flip=True)
    return (
        0 if data.streaming else 3 * (data.image_size + 2 * data.border) ** 2 * (1 + data.flips) * plan.images["train"]
    )


def _check_memory(recipe: Recipe, kind: str, step: StepCost) -> None:
    share = recipe.cluster.gpus_per_worker
    if not step.device_total or share >= 1 or step.device_bytes <= share * step.device_total:
        return
    needed = step.device_bytes / step.device_total
    more = f"Set cluster.gpus_per_worker to at least {needed:.2f}, or lower" if needed <= 1 else "Lower"
    raise ClusterError(
        f"cluster.gpus_per_worker {share:g} gives a worker {share * step.device_total / 2**30:.1f} GiB of its GPU; "
        f"a {TRAININGS[kind]} takes {step.device_bytes / 2**30:.1f} GiB. {more} {kind}.batch_size"
    )


def side_by_side(trainings: Sequence[float], at_once: int) -> float:
    """Seconds until the last of the trainings ends, which take so many each; the next begins where one has ended."""
    ends = [0.0] * at_once
    for seconds in trainings:
        heapreplace(ends, ends[0] + seconds)
    return max(ends)


def seconds_left(plans: Sequence[SplitPlan], costs: Costs) -> dict[str, float]:
    """Time of all that is missing by stage, from the measured steps. Reading data and starting Ray are not in it."""
    embeds = sum(plan.embeds for plan in plans)
    found = {EMBEDDINGS: embeds / costs["pretrain"].step.scored_per_second} if embeds else {}
    found |= {TRAININGS[kind]: _seconds_of(kind, plans, cost) for kind, cost in costs.items()}
    return found


def _seconds_of(kind: str, plans: Sequence[SplitPlan], cost: Cost) -> float:
    if kind == "finetune":  # no point goes on before all have come to its rung
        rungs = zip_longest(*(_fine_tunes(plan, cost) for plan in plans), fillvalue=())
        return sum(side_by_side([*chain.from_iterable(each)], cost.at_once) for each in rungs)
    waiting = []
    for plan in plans:
        if not plan.pretrained:
            steps = plan.recipe.pretrain.epochs * (plan.images["train"] // plan.recipe.pretrain.batch_size)
            # of embeddings it takes no time
            waiting.append(cost.seconds(steps, 0 if plan.needs_embeddings else plan.scored_pretrained))
    return side_by_side(waiting, cost.at_once)


def _fine_tunes(plan: SplitPlan, cost: Cost) -> Iterator[list[float]]:
    """Seconds of each of those that go through, and then of each by rung."""
    # a step's time goes with its images: the points of a space may differ in batch size
    steps = plan.images["train"] / plan.recipe.finetune.batch_size
    for number, epochs in enumerate(plan.epochs):
        # what pauses is not scored on test images
        scored = plan.scored if number in (0, len(plan.epochs) - 1) else 0
        yield [cost.seconds(each * steps, scored) for each in epochs]
