"""Stage report of a sweep: figures and tables over points and class splits, as files that people look at."""

import re
from pathlib import Path

from matplotlib.figure import Figure

from pipelines.output_files import RECIPE, RESULTS
from pipelines.reports.figures import save
from pipelines.reports.sweep_figures.openness import against_openness
from pipelines.reports.sweep_figures.over_points import over_points
from pipelines.reports.sweep_figures.parallel import parallel_coordinates
from pipelines.reports.sweep_figures.parts import DEVELOPMENT
from pipelines.reports.sweep_parquet import write_parquet
from pipelines.reports.sweep_summary import markdown
from pipelines.reports.sweep_table import Space, SweepTable, spaces_of, write_table
from proser_core.config import Recipe, to_json
from proser_core.data.splits.class_split import where
from proser_core.store.files import write_json


def report(table: SweepTable, recipe: Recipe, folder: Path) -> None:
    """Write results.md, trials.parquet, the table itself, the recipe, and a folder of figures for each space."""
    folder.mkdir(parents=True, exist_ok=True)
    for space in spaces_of(table):
        for name, figure in figures_of(table, space).items():
            save(figure, folder / re.sub(r"[^\w.-]+", "_", space.title) / name)
    write_parquet(table, folder / "trials.parquet")
    write_table(table, folder)
    write_json(folder / RECIPE, to_json(recipe))
    (folder / RESULTS).write_text(markdown(table))


def figures_of(table: SweepTable, space: Space) -> dict[str, Figure]:
    """The figures of a space by name.

    `macro_f1` and `auroc` show development data and the smallest setting, `*_settings` every setting.
    """
    settings = [where(setting) for setting in table.settings]
    figures: dict[str, Figure] = {}
    for metric in ("macro_f1", "auroc"):
        figures[metric] = over_points(table, space, metric, [DEVELOPMENT, settings[0]])
        if len(settings) > 1:
            figures[f"{metric}_settings"] = over_points(table, space, metric, settings)
        if table.has_openness:
            figures[f"{metric}_against_openness"] = against_openness(table, space, metric)
    figures["parallel_coordinates"] = parallel_coordinates(table, space)
    return figures
