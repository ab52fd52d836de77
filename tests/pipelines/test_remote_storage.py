"""A storage behind a URI: what reaches it and when, and what other machines make of it."""

import io
import json
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
from pipeline_runs import RunFolder, tiny_recipe
from ray import tune
from rich.console import Console
from storages import BUCKET, ENVIRONMENT, Machines, s3_server

import pipelines.remote.lock
from pipelines.cluster import Cluster, run_single_trial
from pipelines.remote.artefacts import pull, push
from pipelines.remote.lock import LOCK as REMOTE_LOCK
from pipelines.remote.lock import alone_at
from pipelines.remote.mirror import Mirror, mirrored
from pipelines.remote.objects import Objects, RemoteError, checked
from pipelines.sweeping import SweepRequest, sweep
from proser_core.config import Recipe, to_json
from proser_core.errors import ConfigError
from proser_core.jobs import spec
from proser_core.jobs.files import sha256_of
from proser_core.jobs.lock import LOCK
from proser_core.jobs.store import MANIFEST, Artefact, Built, find, seal
