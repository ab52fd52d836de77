"""Where runs come from: the command line, the user and the commit, as the tags that MLflow has for them."""

import shlex
import sys
from functools import cache
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run, SourceType
from mlflow.tracking.context.git_context import GitRunContext
from mlflow.tracking.context.registry import resolve_tags
from mlflow.utils.git_utils import get_git_commit
from mlflow.utils.mlflow_tags import MLFLOW_GIT_COMMIT, MLFLOW_SOURCE_NAME, MLFLOW_SOURCE_TYPE

import pipelines
from pipelines.console import utf8_text
from proser_core.errors import hide_secrets

LONGEST_NAME = 250  # of a run, where the database is PostgreSQL; SQLite takes any
LONGEST_COMMAND = 500


def create_run(client: MlflowClient, experiment_id: str, name: str, tags: dict[str, str]) -> Run:
    """A run that is running, with `tags` and those of its origin."""
    return client.create_run(experiment_id, run_name=shortened(name), tags={**origin_tags(), **tags})


@cache
def origin_tags() -> dict[str, str]:
    """Tags of this process. The commit is that of this package, where it lies in a git repository that does not ignore
    it; MLflow would give that of the script, which lies in an environment. Of a job MLflow's UI shows the whole name of
    the source, of anything else what is behind the last slash, as if it were a file."""
    command = hide_secrets(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]))
    commit = get_git_commit(str(Path(pipelines.__file__).parent))
    source = {
        MLFLOW_SOURCE_NAME: shortened(command, LONGEST_COMMAND),
        MLFLOW_SOURCE_TYPE: SourceType.to_string(SourceType.JOB),
    }
    tags = resolve_tags(source, ignore=[GitRunContext])  # type: ignore[list-item]  # classes are meant
    return tags if commit is None else {**tags, MLFLOW_GIT_COMMIT: commit}


def shortened(name: str, longest: int = LONGEST_NAME) -> str:
    """A name that a run can have, whatever bytes it was given in."""
    name = utf8_text(name)
    return name if len(name) <= longest else f"{name[: longest - 3]}..."
