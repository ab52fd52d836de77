"""A dry-run plan for people: what is found, what is to be trained, and what that takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from rich.table import Table

from pipelines.console import TitledTable
from pipelines.workflow.plan.disk import disk_needed
from pipelines.workflow.plan.photos import PhotoPlan
from pipelines.workflow.plan.trainings import TRAININGS, Cost, Costs, SplitPlan, seconds_left
from proser_core.config import FinetuneConfig, Recipe
from proser_core.titles import counted, duration


@dataclass(frozen=True)
class Plan:
    """Class splits of one training, the costs of what is missing of them, and the photos that are decoded first."""

    splits: Sequence[SplitPlan]
    costs: Costs
    photos: PhotoPlan = field(default_factory=PhotoPlan)

    @property
    def disk(self) -> int:
        """Bytes that it needs."""
        return disk_needed(self.splits, self.costs) + self.photos.disk

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


def in_words(spaces: Mapping[str, Sequence[FinetuneConfig]]) -> str:
    """Search spaces, and how many points each has."""
    return ", ".join(f"{name} ({counted(len(points), 'point')})" for name, points in spaces.items())


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
