"""The files of a report on a run or a sweep: tables, `trials.parquet`, and a folder of figures for each space."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from pipelines.output_files import FIGURES, RECIPE, RESULTS, TABLES
from pipelines.reports.figures.openness import against_openness
from pipelines.reports.figures.over_points import over_points
from pipelines.reports.figures.parallel import parallel_coordinates
from pipelines.reports.figures.parts import DEVELOPMENT
from pipelines.reports.figures.style import save
from pipelines.reports.results_page import results_page
from pipelines.reports.spaces import Space, spaces_of
from pipelines.reports.sweep_table import SweepTable, write_table
from pipelines.reports.trials_parquet import write_parquet
from proser_core.config import Recipe, to_json
from proser_core.data.splits.class_split import where
from proser_core.store.files import write_json
from tune_spaces import folder_of

TRIALS = f"{TABLES}/trials.parquet"


def write_report(
    table: SweepTable,
    recipe: Recipe,
    folder: Path,
    facts: Sequence[str] = (),
    notes: Mapping[str, str] | None = None,
    chapters: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write results.md (`facts`, `notes` and `chapters` as of `results_page`), trials, table, recipe and figures."""
    for space in spaces_of(table):
        for name, figure in figures_of(space).items():
            save(figure, folder / FIGURES / folder_of(space.name) / name)
    write_table(table, folder)
    write_parquet(table, folder / TRIALS)
    write_json(folder / RECIPE, to_json(recipe))
    (folder / RESULTS).write_text(results_page(table, facts, notes, chapters), encoding="utf-8")


def figures_of(space: Space) -> dict[str, Figure]:
    """The figures of a space by name. `macro_f1` and `auroc` show development data and the smallest setting,
    `*_settings` every setting. Where nothing was measured there is no figure."""
    table, figures = space.table, dict[str, Figure]()
    for metric in ("macro_f1", "auroc"):
        settings = [f"{where(setting)}/{metric}" for setting in table.settings]
        first = [f"{DEVELOPMENT}/{metric}"] * table.has_development + settings[:1]
        if first:
            figures[metric] = over_points(space, first)
        if len(settings) > 1:
            figures[f"{metric}_settings"] = over_points(space, settings)
        if table.split.has_openness:
            figures[f"{metric}_against_openness"] = against_openness(space, metric)
    if table.has_development:
        figures["parallel_coordinates"] = parallel_coordinates(space)
    return figures
