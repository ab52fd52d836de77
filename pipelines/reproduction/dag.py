"""What a reproduction makes of trained splits, as nodes behind those of `workflow.dag`: tables and figures."""

from pathlib import Path
from typing import Any

from pipelines.reports.page import template_digests
from pipelines.reproduction.comparing import compare
from pipelines.reproduction.paper_figures.page import write_figures_page
from pipelines.reproduction.paper_figures.stage import draw_figures
from pipelines.reproduction.registering import register_methods
from pipelines.storage.storage import Storage
from pipelines.tracking.registry import Registered
from pipelines.workflow.session import TrainingSession
from pipelines.workflow.stage import stage
from pipelines.workflow.stages.own_networks import train_own_networks
from pipelines.workflow.trained_split import TrainedSplit
from proser_core.config import Recipe
from proser_core.config.own_networks import ScheduleName
from proser_core.data.data_sets import DataRoot, open_data_set
from proser_core.data.outliers.outlier_sets import open_outlier_set
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.jobs.own_networks.plans import plan_network
from proser_core.jobs.spec import TRIALS
from proser_core.store.store import Artefact, BuildResult

OutlierNames = dict[str, tuple[str, ...]]
"""Names of outlier sets by that of their known data set."""


def owned(
    recipes: list[Recipe],
    prepared: list[Artefact],
    networks: list[str],
    own_networks: ScheduleName,
    session: TrainingSession,
) -> list[Artefact | None]:
    """The networks of methods' own on every class split, trained with what they need; None for one that failed."""
    plans = [
        plan_network(OWN_NETWORKS[name], own_networks, recipe, task, session.store)
        for recipe, task in zip(recipes, prepared, strict=True)
        for name in networks
    ]
    train_own_networks(plans, session)
    return [plan.outcome() for plan in plans]


@stage("compare")
def compared(
    splits: list[TrainedSplit],
    methods: list[str],
    own_networks: ScheduleName,
    swept: Artefact,
    owned: list[Artefact | None],
    further_unknowns: list[Artefact | None],
    store: Storage,
    folder: Path,
) -> BuildResult:
    """Every method on every class split, calibrated and evaluated alike."""
    return compare(splits, methods, own_networks, further_unknowns, store, folder)


def methods_registered(
    splits: list[TrainedSplit],
    register: list[str],
    own_networks: ScheduleName,
    compared: Artefact,
    session: TrainingSession,
) -> list[Registered]:
    """The networks of methods that are to be registered, of the first class split."""
    return register_methods(register, splits[0], own_networks, session)


def found_outliers(outliers: OutlierNames, data_dir: DataRoot, session: TrainingSession) -> OutlierNames:
    """The sets whose images are in the data directory, none of a missing data set; prints which are left out."""
    found = {}
    for known, names in outliers.items():
        there = tuple(name for name in names if not open_outlier_set(name, data_dir).missing)
        if there and not open_data_set(known, data_dir).missing:
            found[known] = there
        missing = [name for name in names if name not in found.get(known, ())]
        if missing:
            session.say(f"  no examples of {', '.join(missing)} for {known}: their images were not found")
    return found


def image_files(found_outliers: OutlierNames, data_dir: DataRoot) -> list[Any]:
    """Files that examples are drawn from."""
    files: list[Any] = [open_data_set(known, data_dir).fingerprints() for known in found_outliers]
    names = [name for names in found_outliers.values() for name in names]
    return files + [open_outlier_set(name, data_dir).fingerprints() for name in names]


@stage("figures")
def drawn(
    splits: list[TrainedSplit],
    trials: list[dict[str, Any]],
    found_outliers: OutlierNames,
    image_files: list[Any],
    data_dir: DataRoot,
    store: Storage,
    folder: Path,
) -> None:
    """All figures."""
    (split,) = splits
    draw_figures(split, trials, store.root / TRIALS, found_outliers, data_dir, folder)


def templates() -> list[str]:
    """Digests of what pages are rendered from."""
    return template_digests()


@stage("figures_page")
def paged(drawn: Artefact, command: str, templates: list[str], folder: Path) -> None:
    """The figures on one page; `command` is what the user typed."""
    write_figures_page(drawn.path, command, folder)
