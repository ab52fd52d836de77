"""The graph of a run's stages as a picture."""

from pathlib import Path
from typing import Any

import graphviz

from pipelines.output_files import check_output, write_output
from pipelines.workflow import dag
from pipelines.workflow.run_stages import REGISTERED
from pipelines.workflow.session import driver_of
from proser_core.errors import ConfigError


def draw(path: Path) -> None:
    """Write the graph of the stages: .dot as text, .svg, .png or .pdf through Graphviz. Raises ConfigError for another
    ending, a path that cannot be written, or where Graphviz is not installed."""
    check_output(path, "--draw", (".dot", ".svg", ".png", ".pdf"))
    graph: Any = driver_of(dag).visualize_execution(
        [REGISTERED], inputs={}, bypass_validation=True, hide_inputs=True, show_legend=False
    )
    if path.suffix == ".dot":
        write_output(path, graph.source.encode())
        return
    try:
        write_output(path, graph.pipe(format=path.suffix.removeprefix(".")))
    except graphviz.ExecutableNotFound as error:
        raise ConfigError(
            f"drawing {path} needs Graphviz's program `dot`, which is not installed; "
            "install graphviz, or give a .dot file"
        ) from error
