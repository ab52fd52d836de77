"""What a training DAG starts from, as values, and the fine-tunes of a recipe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from proser_core.config import FinetuneConfig, Recipe, from_json
from proser_core.config.named_finetunes import control
from proser_core.data.data_sets import DataRoot
from proser_core.data.preparation import split_of
from proser_core.errors import ConfigError
from proser_core.jobs.preparing import prepare_inputs
from proser_core.recognition.validation_scores import Proxy
from tune_spaces import SpaceInfo, expand, sample, space_info


@dataclass(frozen=True, kw_only=True)
class TrainingInputs:
    """The inputs of a training DAG: a recipe per class split, and what is trained on each."""

    recipes: list[Recipe]
    data_dir: DataRoot
    data_inputs: list[dict[str, Any]]
    """The fields and files that decide the images of each split."""
    finetunes: list[FinetuneConfig]
    spaces: dict[str, list[FinetuneConfig]] = field(default_factory=dict)
    """The points of each search space, which are among `finetunes`."""
    space_infos: dict[str, SpaceInfo] = field(init=False)
    """What the module of each search space says of it."""
    names: list[tuple[str, str]] = field(init=False)
    """Those of each recipe and its model, which a report bears."""
    stoppable: list[FinetuneConfig] = field(default_factory=list)
    """Points that may be stopped early."""
    max_seconds: float = 0.0
    """Budget for fine-tuning; 0 is no limit."""
    pretrained_file: Path | None = None
    """A user's own closed-set checkpoint."""
    proxy: Proxy | None = None
    """What chose the fine-tune of a run that knows every class."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "space_infos", {name: space_info(name) for name in self.spaces})
        object.__setattr__(self, "names", [(each.name, each.model_name) for each in self.recipes])

    @classmethod
    def of(
        cls, recipes: list[Recipe], data_dir: DataRoot, finetunes: list[FinetuneConfig], **more: Any
    ) -> "TrainingInputs":
        """Inputs with the images of each class split. Raises ProserError for images that cannot be used."""
        for recipe in recipes:
            split_of(recipe.data, data_dir)  # refuses images that do not fit
        return cls(
            recipes=recipes,
            data_dir=data_dir,
            data_inputs=[prepare_inputs(recipe, data_dir) for recipe in recipes],
            finetunes=finetunes,
            **more,
        )


def stoppable_points(
    recipe: Recipe, spaces: Mapping[str, Sequence[FinetuneConfig]], compared: Sequence[str]
) -> list[FinetuneConfig]:
    """Points of the spaces `compared` that may be stopped early; never the control, the recipe's own point or one of
    another space, and none where heads of embeddings are trained, which takes a second. Raises ConfigError where they
    could not be compared while they train."""
    if recipe.network.is_frozen("finetune"):
        return []
    if compared and recipe.cluster.num_workers > 1:
        raise ConfigError(
            f"points of the search space {compared[0]!r} are compared while they train, because those that fall behind "
            f"are stopped, each by its own worker; cluster.num_workers is {recipe.cluster.num_workers}, set it to 1"
        )
    others = [point for name, points in spaces.items() if name not in compared for point in points]
    kept = frozenset(finetunes_of(recipe, others))
    return [point for name in compared for point in spaces[name] if point not in kept]


def points_of(recipe: Recipe, space: str, num_samples: int = 0) -> list[FinetuneConfig]:
    """The points of a search space around the recipe, or so many draws from one with random draws, by the recipe's
    seed; none for an empty name. Raises ConfigError for an unknown one."""
    points = sample(space, num_samples, recipe.seed) if num_samples else expand(space) if space else []
    return [apply_point(recipe, point, space) for point in points]


def spaces_of(recipe: Recipe) -> dict[str, list[FinetuneConfig]]:
    """The points of the recipe's own search space by its name; empty where it has none."""
    return {recipe.space: points_of(recipe, recipe.space)} if recipe.space else {}


def finetunes_of(recipe: Recipe, points: Sequence[FinetuneConfig]) -> list[FinetuneConfig]:
    """The control, the recipe's own point, and the points of its search spaces; equal ones once."""
    return list(dict.fromkeys([control(recipe.finetune), recipe.finetune, *points]))


def apply_point(recipe: Recipe, point: dict[str, Any], space: str) -> FinetuneConfig:
    """The recipe's fine-tune with a point's fields filled in. Raises ConfigError for fields outside `finetune`, since
    all points share data and pretraining, and for values that do not suit them."""
    given = point.get("finetune", {})
    try:
        tuned = from_json(FinetuneConfig, given, "finetune", base=recipe.finetune)
        wrong = [name for name in point if name != "finetune"] + ["finetune.objective"] * ("objective" in given)
        if wrong:
            raise ConfigError(f"it sets {wrong[0]}; it may set finetune.*, except finetune.objective")
        return replace(recipe, finetune=tuned).finetune
    except ConfigError as error:
        raise ConfigError(f"search space {space!r}: {error}") from error
