"""The fine-tunes of a recipe as trials, with their names and keys; and what no training could begin with."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from proser_core.config import FinetuneConfig, Recipe, to_json
from proser_core.config.named_finetunes import PLACEHOLDER_FIELDS, control
from proser_core.errors import ConfigError
from proser_core.jobs import spec
from proser_core.networks.nets import make_closed_set_net
from proser_core.recognition.scores import ScoreFunction, own_score
from proser_core.store.store import Artefact, Store
from proser_core.titles import CONTROL

WORKER = "proser_core.jobs.worker"  # the module whose code version stands in every training's key
NAMED = ("beta", "gamma", "num_dummies", "alpha")


@dataclass(frozen=True)
class Trial:
    """One fine-tune: its recipe with the point filled in, and where its outcome is."""

    recipe: Recipe
    name: str
    inputs: dict[str, Any]
    folder: Path

    @property
    def key(self) -> str:
        """Name of the trial in storage and in tracking."""
        return self.folder.name

    @property
    def is_control(self) -> bool:
        """Whether it is a plain cross-entropy fine-tune."""
        return self.recipe.finetune.objective == "cross_entropy"

    @property
    def score_function(self) -> ScoreFunction:
        """How the trial's own network is scored."""
        return own_score(self.recipe)

    def params(self) -> dict[str, Any]:
        """What tracking shows as the trial's parameters."""
        tuned = self.recipe.finetune
        return {
            **to_json(tuned),
            "C": tuned.num_dummies,
            "split_index": self.recipe.data.split_index,
            "seed": self.recipe.seed,
        }

    def job(self, task: Artefact, pretrained: Artefact, bf16: bool) -> spec.Job:
        """What a worker is to do."""
        weights = str(pretrained.path / spec.WEIGHTS) if self.recipe.finetune.start == "pretrained" else ""
        return spec.Job.of("finetune", self.recipe, task, self.folder, bf16, weights, self.inputs)


def check_recipe(recipe: Recipe) -> None:
    """Raises ConfigError for what no training could begin with, CheckpointError for weights that do not fit."""
    if recipe.finetune.objective != "proser":
        raise ConfigError("finetune.objective is the control's own, which every run trains; do not set the field")
    if recipe.data.knows_all:
        raise ConfigError(
            f"{recipe.name} has data.num_known 0, all classes, which takes one training after another; `proser run` "
            "makes both. Here, give data.num_known, data.unknown_settings and data.development"
        )
    make_closed_set_net(recipe.network, recipe.data.num_known, recipe.data.image_size, recipe.seed)


def plan_trials(
    recipe: Recipe,
    finetunes: Sequence[FinetuneConfig],
    task: Artefact,
    pretrained: Artefact,
    store: Store,
    *,
    bf16: bool,
    code: str,
) -> list[Trial]:
    """The trials of these fine-tunes; equal ones once. `code` is the code version of the worker."""
    trials: dict[str, Trial] = {}
    for tuned in finetunes:
        one = replace(recipe, finetune=tuned)
        if tuned.objective == "cross_entropy":
            one = control_of(one)
        weights = pretrained.digest if one.finetune.start == "pretrained" else ""
        inputs = spec.job_inputs("finetune", one, task, weights, bf16, code)
        trial = Trial(one, _name(one.finetune, recipe.finetune), inputs, store.folder(spec.TRIALS, inputs))
        trials.setdefault(trial.key, trial)
    return list(trials.values())


def control_of(recipe: Recipe) -> Recipe:
    """The cross-entropy fine-tune beside PROSER; fields of the placeholders do not matter to it."""
    return replace(recipe, finetune=control(recipe.finetune))


def _name(tuned: FinetuneConfig, base: FinetuneConfig) -> str:
    """Name for people: the paper's four numbers, and what else differs from the recipe."""
    is_control = tuned.objective == "cross_entropy"
    named = (*PLACEHOLDER_FIELDS, "objective") if is_control else NAMED
    others = [f.name for f in fields(tuned) if f.name not in named and getattr(tuned, f.name) != getattr(base, f.name)]
    extra = "".join(f", {name} {getattr(tuned, name)}" for name in others)
    if is_control:
        return f"{CONTROL}{extra}"
    beta, gamma, alpha = map(_number, (tuned.beta, tuned.gamma, tuned.alpha))
    return f"beta {beta}, gamma {gamma}, C {tuned.num_dummies}, alpha {alpha}{extra}"


def _number(value: float) -> str:
    """Short where that says it exactly: no two points have one name."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
