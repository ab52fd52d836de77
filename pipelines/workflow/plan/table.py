"""A dry-run plan for people: what is found, what is to be trained, and what that takes of time and of the disk."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from rich.table import Table

from pipelines.console import TitledTable
from pipelines.workflow.plan.photos import PhotoPlan
from pipelines.workflow.plan.trainings import TRAININGS, Cost, Costs, SplitPlan, seconds_left
from proser_core.config import FinetuneConfig, Recipe
from proser_core.errors import ConfigError
from proser_core.recognition.embedding_table import INDEX_SIZE
from proser_core.store.store import Store
from proser_core.titles import counted, duration

CHECKPOINT = 3
"""Weights, momentum and perhaps an average, each as large as the weights."""


@dataclass(frozen=True)
class Plan:
    """Class splits of one training, the costs of what is missing of them, and the photos that are decoded first."""

    splits: Sequence[SplitPlan]
    costs: Costs
    photos: PhotoPlan = field(default_factory=PhotoPlan)

    @property
    def disk(self) -> int:
        """Bytes of the weights, logits, images and checkpoints that are missing, and of the photos; where nothing is to
        be trained, of these alone."""
        return (_disk_of_trainings(self.splits, self.costs) if self.costs else 0) + self.photos.disk

    def table(self, title: str, above: dict[str, str], each: str, below: dict[str, str]) -> Table:
        """For people: the rows of the splits between others; `each` says what a split's fine-tunes are."""
        table = TitledTable(title=title, show_header=False, box=None, title_style="bold")
        splits, count = self.splits, len(self.splits)
        trials, missing = sum(split.trials for split in splits), sum(split.missing for split in splits)
        family = splits[0].recipe.data.split_family
        indices = ", ".join(str(split.recipe.data.split_index) for split in splits)
        for name, text in (above | self.photos.lines()).items():
            table.add_row(f"  {name}", text)
        row, kind = ("class split", "index") if count == 1 else ("class splits", "indices")
        table.add_row(f"  {row}", f"{kind} {indices} of {family}" if family else f"{kind} {indices}")
        table.add_row("  prepare", _done(count, sum(not split.prepared for split in splits), "make"))
        table.add_row("  pretrain", _done(count, sum(not split.pretrained for split in splits), "train"))
        table.add_row("  fine-tune", _done(trials, missing, "train"))
        table.add_row("", f"{trials // count} per split: {each}")
        for name, text in below.items():
            table.add_row(f"  {name}", text)
        return table

    def times(self, after: Mapping[str, float] = MappingProxyType({})) -> dict[str, float]:
        """Seconds of each stage, those `after` the trainings last; none where nothing is to be trained."""
        return {**self.photos.seconds, **seconds_left(self.splits, self.costs), **after} if self.costs else {}

    def seconds_of_passes(self, networks: int) -> float:
        """Seconds that so many networks take to go through the images of each class split once more for an evaluation,
        where the logits that trainings leave are not all that it needs; 0 where nothing is to be trained."""
        return sum(_seconds_of_passes(each, self.costs, networks) for each in self.splits) if self.costs else 0.0

    def cost_lines(self, times: Mapping[str, float]) -> dict[str, str]:
        """Resources, and what `times` gave, as rows of the plan."""
        recipe, costs = self.splits[0].recipe, self.costs
        cluster, lines = recipe.cluster, {}
        gpus = f" and {cluster.gpus_per_worker:g} GPU" if cluster.uses_gpu else ""
        for kind, cost in costs.items():
            memory = f", {cost.step.memory_bytes / 2**30:.1f} GiB per worker" if cost.step.memory_bytes else ""
            memory += f", {cost.step.device_bytes / 2**30:.1f} GiB of the GPU" if cost.step.device_bytes else ""
            lines[f"a {TRAININGS[kind]}"] = (
                f"{counted(recipe.training(kind)[1], 'worker')} of {counted(cost.cpus, 'CPU')}{gpus}, "
                f"{cost.at_once} at a time; {_rate(cost.step.step_seconds)} per step, measured now{memory}"
            )
        if embeds := sum(split.embeds for split in self.splits):
            rate = costs["pretrain"].step.scored_per_second
            lines["embeddings"] = (
                f"{embeds:,} images, about {duration(embeds / rate)} ({_rate(1 / rate)} each, measured now)"
            )
        short = "; ".join(filter(None, (_shortage(recipe, kind, cost) for kind, cost in costs.items())))
        if short:
            lines["memory"] = short
        lines["time"] = _time(times) if times else "nothing to train"
        if recipe.data.streaming and costs:
            lines["time"] += ", without decoding the streamed images"
        if costs and any(any(rung) for split in self.splits for rung in split.epochs[1:]):
            lines["time"] += "; points that fall behind are stopped"
        return lines


def check_disk(needed: int, store: Store) -> None:
    """Raises ConfigError where what a plan needs would not fit on the disk."""
    free = shutil.disk_usage(store.root).free
    if needed > free:
        raise ConfigError(
            f"the storage {store.root} has {_size(free)} free, and the plan needs about {_size(needed)}; free some, or "
            f"give another folder with {store.option}"
        )


def in_words(spaces: Mapping[str, Sequence[FinetuneConfig]]) -> str:
    """Search spaces, and how many points each has."""
    return ", ".join(f"{name} ({counted(len(points), 'point')})" for name, points in spaces.items())


def _disk_of_trainings(splits: Sequence[SplitPlan], costs: Costs) -> int:
    weights = (costs.get("finetune") or costs["pretrain"]).step.weight_bytes
    needed = 4 * weights * max(cost.at_once for cost in costs.values())
    for split in splits:
        logits = 8 * split.recipe.data.num_known
        needed += (weights + logits * split.scored) * split.missing
        needed += CHECKPOINT * weights * sum(map(len, split.epochs[1:2]))  # of all that pause at the first rung
        needed += (weights + logits * split.scored_pretrained) * (not split.pretrained)
        pixels = 0 if split.recipe.data.streaming else 3 * split.recipe.data.image_size**2
        needed += pixels * sum(split.images.values()) * (not split.prepared)
    return needed


def _seconds_of_passes(split: SplitPlan, costs: Costs, networks: int) -> float:
    """One after the other in this process, as fast as the trainings that are to come score them; mirrored images too if
    the recipe asks for it. 0 where they need not, or have the embeddings of a frozen backbone."""
    recipe, mirror = split.recipe, split.recipe.calibration.mirror
    frozen = recipe.network.is_frozen("finetune")
    cost = costs.get("pretrain" if frozen else "finetune") or (None if frozen else costs["pretrain"])
    if not recipe.calibration.reads_embeddings or cost is None or (frozen and not mirror):
        return 0.0
    if recipe.network.is_frozen("pretrain") and not mirror:
        networks -= 1  # the pretrained one
    passes = 2 if mirror else 1
    at_once = 1 if recipe.cluster.uses_gpu else cost.at_once  # one GPU, or the cores of all trainings
    images = split.scored + min(split.images["train"], INDEX_SIZE)
    return networks * passes * images / (at_once * cost.step.scored_per_second)


def _done(total: int, missing: int, verb: str) -> str:
    return f"{missing} to {verb}" + (f", {total - missing} already finished" if missing < total else "")


def _shortage(recipe: Recipe, kind: str, cost: Cost) -> str:
    """What trainings side by side take, and how many fit; empty where all do."""
    if cost.fit is None or cost.fit >= cost.at_once:
        return ""
    needed = cost.at_once * recipe.training(kind)[1] * cost.step.memory_bytes / 2**30
    advice = f"give --cluster.max-concurrent {cost.fit}" if cost.fit else f"lower {kind}.batch_size"
    trainings = counted(cost.at_once, TRAININGS[kind])
    together = f"{trainings} side by side need" if cost.at_once > 1 else f"{trainings} needs"
    return f"{together} {needed:.1f} GiB; the nodes have room for {cost.fit}: {advice}"


def _time(seconds: Mapping[str, float]) -> str:
    """In all, and of each stage."""
    stages = ", ".join(f"{stage} {duration(each)}" for stage, each in seconds.items())
    return f"about {duration(sum(seconds.values()))}" + (f" ({stages})" if len(seconds) > 1 else "")


def _rate(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
