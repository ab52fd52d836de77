"""The pretraining of a recipe and its fine-tunes, the trials, with their names and keys; and what no training could
begin with."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from proser_core.config import FinetuneConfig, Recipe, to_json
from proser_core.config.calibration import AUTO
from proser_core.config.named_finetunes import PLACEHOLDER_FIELDS, control
from proser_core.digests import sha256_of
from proser_core.errors import ConfigError
from proser_core.jobs import spec
from proser_core.naming import look_up
from proser_core.networks.nets import make_closed_set_net
from proser_core.processor import resolve_precision
from proser_core.recognition.scores import FURTHER_SCORES, SCORES
from proser_core.store.code_version import code_version
from proser_core.store.store import Artefact, Store, artefact_folder
from proser_core.titles import CONTROL, SHORT

WORKER = "proser_core.jobs.worker"  # the module whose code version stands in every training's key
NAMED = ("beta", "gamma", "num_dummies", "alpha")


@dataclass(frozen=True)
class Pretraining:
    """The closed-set training of one class split; `own` is a user's checkpoint or an empty string."""

    recipe: Recipe
    task: Artefact
    inputs: dict[str, Any]
    folder: Path
    own: str

    @property
    def epochs(self) -> int:
        """Epochs that it reports."""
        return self.recipe.pretrain.epochs

    def job(self) -> spec.Job:
        """What a worker is to do."""
        return spec.Job.of("pretrain", self.recipe, self.task, self.folder, self.inputs["bf16"], self.own, self.inputs)


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

    def params(self) -> dict[str, Any]:
        """What tracking shows as the trial's parameters."""
        tuned = self.recipe.finetune
        return {
            **to_json(tuned),
            "C": tuned.num_dummies,
            "split_index": self.recipe.data.split_index,
            "seed": self.recipe.seed,
        }

    def job(self, task: Artefact, pretrained: Artefact) -> spec.Job:
        """What a worker is to do."""
        weights = str(pretrained.path / spec.WEIGHTS) if self.recipe.finetune.start == "pretrained" else ""
        return spec.Job.of("finetune", self.recipe, task, self.folder, self.inputs["bf16"], weights, self.inputs)


def check_recipe(recipe: Recipe) -> None:
    """Raises ConfigError for what no training could begin with, CheckpointError for weights that do not fit."""
    if recipe.finetune.objective != "proser":
        raise ConfigError(
            "finetune.objective cross_entropy is reserved for the control, which every run trains; leave it at proser"
        )
    if recipe.data.knows_all:
        raise ConfigError(
            f"{recipe.name} makes every class known (data.num_known 0), which takes two trainings in turn, as only "
            "`proser run` does. Here, give data.num_known, data.unknown_settings and data.development"
        )
    check_score(recipe, recipe.data.has_development or bool(recipe.calibration.development))
    make_closed_set_net(recipe.network, recipe.data.num_known, recipe.data.image_size, recipe.seed)


def check_score(recipe: Recipe, can_choose: bool) -> None:
    """Raises ConfigError for a score that there is not, for one that the wanted network does not have, and for a choice
    without development unknowns, by which one `can_choose`."""
    calibration = recipe.calibration
    if calibration.score not in ("", AUTO):
        score = look_up("score", calibration.score, {**SCORES, **FURTHER_SCORES})
        for name, value in (
            ("calibration.network", calibration.network),
            ("finetune.objective", recipe.finetune.objective),
        ):
            if score.needs_dummies and value != "proser":
                raise ConfigError(
                    f"{name} is {value}, and the score {calibration.score} reads dummies, which the control does not "
                    f"have; name another score (`proser list scores`), or omit {name}"
                )
    for name, remedy in (("score", "name a score (`proser list scores`)"), ("network", "give proser or control")):
        if getattr(calibration, name) == AUTO and not can_choose:
            raise ConfigError(
                f"calibration.{name} is {AUTO}, and there are no development unknowns to choose by; give some, by "
                f"data.development or calibration.development or in the task, or {remedy}"
            )


def plan_pretraining(
    recipe: Recipe, task: Artefact, root: Path, *, code: str = "", own: Path | None = None
) -> Pretraining:
    """The pretraining on a task, with its key and its folder in a storage; `own` is a user's checkpoint, `code` as of
    `plan_trials`."""
    digest = sha256_of(own) if own else ""
    inputs = spec.job_inputs("pretrain", recipe, task, digest, resolve_precision(recipe), code or code_version(WORKER))
    folder = artefact_folder(root, spec.PRETRAIN, inputs)
    return Pretraining(recipe, task, inputs, folder, str(own.resolve()) if own else "")


def plan_trials(
    recipe: Recipe,
    finetunes: Sequence[FinetuneConfig],
    task: Artefact,
    pretrained: Artefact,
    store: Store,
    code: str = "",
) -> list[Trial]:
    """The trials of these fine-tunes; equal ones once. `code` is the worker's code version, where it is not this
    Python's own."""
    names, bf16 = _names(finetunes), resolve_precision(recipe)
    trials: dict[str, Trial] = {}
    for tuned in finetunes:
        one = replace(recipe, finetune=tuned)
        if tuned.objective == "cross_entropy":
            one = control_of(one)
        weights = pretrained.digest if one.finetune.start == "pretrained" else ""
        inputs = spec.job_inputs("finetune", one, task, weights, bf16, code or code_version(WORKER))
        trial = Trial(one, names[tuned], inputs, store.folder(spec.TRIALS, inputs))
        trials.setdefault(trial.key, trial)
    return list(trials.values())


def control_of(recipe: Recipe) -> Recipe:
    """The cross-entropy fine-tune beside PROSER; fields of the placeholders do not matter to it."""
    return replace(recipe, finetune=control(recipe.finetune))


def _names(finetunes: Sequence[FinetuneConfig]) -> dict[FinetuneConfig, str]:
    """Names for people, by the fields that vary; where nothing does, by the paper's four numbers."""
    points = [tuned for tuned in finetunes if tuned.objective == "proser"]
    controls = [tuned for tuned in finetunes if tuned.objective == "cross_entropy"]
    names = {tuned: _name(tuned, _varied(points) or NAMED) for tuned in points}
    varied = [name for name in _varied(controls) if name not in PLACEHOLDER_FIELDS]
    return names | {tuned: " ".join(filter(None, [CONTROL, _name(tuned, varied)])) for tuned in controls}


def _varied(finetunes: Sequence[FinetuneConfig]) -> list[str]:
    """Fields with more than one value, the paper's numbers first."""
    every = dict.fromkeys([*NAMED, *(each.name for each in fields(FinetuneConfig))])
    return [name for name in every if len({getattr(tuned, name) for tuned in finetunes}) > 1]


def _name(tuned: FinetuneConfig, named: Sequence[str]) -> str:
    return " ".join(f"{SHORT.get(name, name)}={_value(getattr(tuned, name))}" for name in named)


def _value(value: Any) -> str:
    """A number is short where that says it exactly: no two points have one name."""
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
