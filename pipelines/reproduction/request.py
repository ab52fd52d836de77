"""What a reproduction is asked for, and the facts that its numbers belong to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipelines.recipes import schedule_in_words, schedule_note
from pipelines.reproduction.protocols import PROTOCOLS, STUDIES, Study
from pipelines.reproduction.results import Result
from proser_core.baselines import METHODS
from proser_core.config import Recipe
from proser_core.data.outliers.outlier_sets import missing_outliers, outlier_notes
from proser_core.errors import first_line
from proser_core.jobs.preparing import missing_images


@dataclass(frozen=True)
class Asked:
    """A study with a recipe for each class split, without the outlier sets `left_out`, which are told by name why they
    cannot be read; `notes` tell by name what a reader must know of the others, and of the schedule."""

    name: str
    recipes: list[Recipe]
    left_out: dict[str, str]
    notes: dict[str, str]


@dataclass(frozen=True)
class ReproduceRequest:
    """What is asked for: protocols by name; `recipe` holds all but the images, which the protocols say.

    An empty family or empty split indices are the protocol's own; without methods it is all of them. `image_size` 0 is
    the protocol's own too. `jobs` is where job files are written instead, and `import_from` are the folders in which
    they were run. `command` is what the user typed, for the report.
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
    jobs: Path | None = None
    with_task: bool = False
    import_from: tuple[Path, ...] = ()
    command: str = "proser reproduce"

    @property
    def studies(self) -> list[str]:
        """Names of the studies that the protocols read, each once."""
        return list(dict.fromkeys(study for name in self.names for study in PROTOCOLS[name].studies))

    def family_of(self, study: Study) -> str:
        """The class lists that a study takes."""
        return self.family or study.family

    def asked(self, name: str) -> "Asked":
        """A study as it is asked for, by what is in the data directory now."""
        study = STUDIES[name]
        absent = {each: missing_outliers(each, self.data_dir) for each in study.data.outliers}
        there = [each for each, reason in absent.items() if not reason]
        recipes = []
        family = self.family_of(study)
        for index in self.split_indices or study.splits_of(family):
            data = study.data_of(family, index)
            data = replace(
                data,
                download=self.download,
                image_size=self.image_size or data.image_size,
                outliers=tuple(there) or data.outliers,  # where none is there, preparing names the first
            )
            recipes.append(replace(self.recipe, name=name, space="", data=data))
        left_out = {each: reason for each, reason in absent.items() if there and reason}
        note = schedule_note(self.recipe.pretrain, study.data.name)
        notes = {**({f"schedule on {study.title}": note} if note else {}), **outlier_notes(there, self.data_dir)}
        return Asked(name, recipes, left_out, notes)

    def spared(self) -> dict[str, str]:
        """Studies whose images are not there, by name why, and that no protocol needs: each that reads one has another
        column."""
        reasons = {name: missing_images(self.asked(name).recipes[0], self.data_dir) for name in self.studies}
        absent = {name: reason for name, reason in reasons.items() if reason}
        read_by = [PROTOCOLS[name].studies for name in self.names]
        needed = {study for studies in read_by if set(studies) <= absent.keys() for study in studies}
        return {name: reason for name, reason in absent.items() if name not in needed}

    def method_names(self) -> list[str]:
        """The methods in the order of a table."""
        return [name for name in METHODS if name in self.methods or not self.methods]


def facts(
    request: ReproduceRequest,
    asked: Sequence[Asked],
    results: Sequence[Result],
    spared: Iterable[str],
    failed: Mapping[str, Exception],
    bf16: bool,
) -> dict[str, str]:
    """What the numbers belong to, and studies that `failed`, with why; nothing of it changes where all is found
    finished."""
    recipe = request.recipe
    schedule = f"{schedule_in_words(recipe.pretrain)}, {recipe.finetune.epochs} of fine-tuning"
    sizes = " and ".join(sorted({str(each.data.image_size) for study in asked for each in study.recipes}))
    told = {
        "schedule": f"{schedule}, backbone {recipe.network.backbone}, images of {sizes} pixels, "
        + ("bf16" if bf16 else "fp32"),
        "class splits": ", ".join(map(str, sorted({result.split_index for result in results}))),
        "seed": str(recipe.seed),
        "trained on": "; ".join(sorted({place for result in results for place in result.trained_on})),
    }
    told |= {name: f"failed: {first_line(error)}" for name, error in failed.items()}
    left_out = [STUDIES[name].title for name in spared]
    for each in asked:
        told |= each.notes
        left_out += each.left_out
    return told | dict.fromkeys(left_out, "not measured: its images were not there")
