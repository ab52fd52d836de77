"""What a reproduction is asked for, and the facts that its numbers belong to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from pipelines.reproduction.protocols import PROTOCOLS, STUDIES, Study
from pipelines.reproduction.results import Result
from proser_core.baselines import METHODS
from proser_core.config import Recipe
from proser_core.data.outlier_sets import find_outliers, outlier_notes
from proser_core.processor import hardware


@dataclass(frozen=True)
class ReproduceRequest:
    """What is asked for: protocols by name; `recipe` holds all but the images, which the protocols say.

    An empty family or empty split indices are the protocol's own; without methods it is all of them. `image_size` 0 is
    the protocol's own too. `command` is what the user typed, for the report.
    """

    names: tuple[str, ...]
    recipe: Recipe
    data_dir: Path | None
    storage: Path | str
    family: str = ""
    split_indices: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()
    image_size: int = 0
    download: bool = False
    cluster_file: Path | None = None
    dry_run: bool = False
    command: str = "proser reproduce"

    @property
    def studies(self) -> list[str]:
        """Names of the studies that the protocols read, each once."""
        return list(dict.fromkeys(study for name in self.names for study in PROTOCOLS[name].studies))

    def family_of(self, study: Study) -> str:
        """The class lists that a study takes."""
        return self.family or study.family

    def recipes_of(self, name: str) -> list[Recipe]:
        """The recipe of each class split of a study, without outlier sets whose images are not there."""
        study = STUDIES[name]
        recipes = []
        for index in self.split_indices or study.splits:
            data = study.data_of(self.family_of(study), index)
            found = tuple(each for each in data.outliers if find_outliers(each, self.data_dir) is not None)
            data = replace(
                data,
                download=self.download,
                image_size=self.image_size or data.image_size,
                outliers=found or data.outliers,  # where none is there, preparing names the first
            )
            recipes.append(replace(self.recipe, name=name, space="", data=data))
        return recipes

    def left_out(self, name: str) -> list[str]:
        """Outlier sets of a study whose images are not there."""
        there = self.recipes_of(name)[0].data.outliers
        return [each for each in STUDIES[name].data.outliers if each not in there]

    def method_names(self) -> list[str]:
        """The methods in the order of a table."""
        return [name for name in METHODS if name in self.methods or not self.methods]


def facts(request: ReproduceRequest, results: Sequence[Result], bf16: bool) -> dict[str, str]:
    """What the numbers belong to. Nothing of it changes where all is found finished."""
    recipe = request.recipe
    schedule = f"{recipe.pretrain.epochs} epochs of pretraining, {recipe.finetune.epochs} of fine-tuning"
    splits = sorted({result.split_index for result in results})
    return {
        "schedule": f"{schedule}, backbone {recipe.network.backbone}, {'bf16' if bf16 else 'fp32'}",
        "class splits": ", ".join(map(str, splits)),
        "seed": str(recipe.seed),
        **_about_outliers(request),
        "hardware": hardware(recipe.cluster.uses_gpu),
        "versions": ", ".join(f"{name} {version(name)}" for name in ("torch", "torchvision", "ray", "mlflow")),
    }


def _about_outliers(request: ReproduceRequest) -> dict[str, str]:
    """What a reader must know of the outlier sets, and which were not there."""
    facts: dict[str, str] = {}
    for name in request.studies:
        outliers = request.recipes_of(name)[0].data.outliers
        facts |= outlier_notes(outliers, request.data_dir)
        facts |= dict.fromkeys(request.left_out(name), "not measured: its images were not there")
    return facts
