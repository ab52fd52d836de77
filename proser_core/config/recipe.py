"""`Recipe`: all blocks together; and the part of it that decides a result, which the keys of finished work hold."""

import math
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from proser_core.config.calibration import CalibrationConfig
from proser_core.config.checks import Block
from proser_core.config.cluster import ClusterConfig
from proser_core.config.data import DataConfig
from proser_core.config.finetune import FinetuneConfig
from proser_core.config.network import NetworkConfig
from proser_core.config.optimizer import OptimizerConfig, PretrainConfig
from proser_core.digests import sha256_of
from proser_core.errors import CheckpointError, ConfigError
from proser_core.serialization import to_json

Precision = Literal["auto", "bf16", "fp32"]


@dataclass(frozen=True, kw_only=True)
class Recipe(Block):
    """All settings of a run: what decides its result, where it runs, and what it is called. Stored with it."""

    name: str = "custom"
    """Name of the recipe that these fields started from."""
    space: str = "trade_off"
    """Search space of the sweep (`proser list spaces`); --space "" trains the recipe's own point alone."""
    stop_early: bool = False
    """Stop points of grids that fall behind on development data: one in three goes on after a tenth of the epochs, and
    again after three tenths. The control and the recipe's own point are never stopped."""
    seed: int = 0
    """Seed of the validation draw, initial weights, batch order, augmentation and mixing."""
    precision: Precision = "auto"
    """Arithmetic of training: bf16 autocast or fp32. auto is bf16 on GPUs and on CPUs that have it.
    Scores and calibration are always fp32."""
    model_name: str = "proser"
    """Name of the registered model."""
    data: DataConfig = field(default_factory=DataConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    pretrain: PretrainConfig = field(default_factory=PretrainConfig)
    finetune: FinetuneConfig = field(default_factory=FinetuneConfig)
    calibration: CalibrationConfig = field(default_factory=CalibrationConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("seed", 0 <= self.seed < 2**63, "0 or more, and below 2^63")
        is_name = re.fullmatch(r"[A-Za-z0-9._-]{1,200}", self.model_name) is not None
        self.require("model_name", is_name, "letters, digits, '.', '_' and '-', at most 200 of them")
        can_choose = self.data.has_development or self.data.knows_all
        nothing = "empty if data.development is none: nothing could choose among its points"
        self.require("space", can_choose or not self.space, nothing)
        self._check_division("finetune", self.cluster.fewest_workers, "num_workers", halves=2)
        self._check_division("pretrain", self.cluster.pretrain_workers, "pretrain_workers", halves=1)
        self._check_normalised("pretrain", "cluster.pretrain_workers lower", self.cluster.pretrain_workers)
        if self.finetune.normalises_halves:
            self._check_normalised("finetune", "finetune.mixture_batch_norm to shared", 2 * self.cluster.num_workers)
        self._check_pretrained()

    def training(self, kind: str) -> tuple[OptimizerConfig, int]:
        """The block of a training and its number of workers. Raises ValueError where `kind` is not pretrain or
        finetune."""
        if kind == "finetune":
            return self.finetune, self.cluster.num_workers
        if kind == "pretrain":
            return self.pretrain, self.cluster.pretrain_workers
        raise ValueError(f"the recipe states a pretrain and a finetune; got {kind!r}")

    def _check_pretrained(self) -> None:
        """What pretrained weights do not survive: Muon gives each convolution a scale of its own choice, which only a
        batch norm by batch statistics behind it takes back."""
        network = self.network
        if network.features == "head-first" and self.finetune.start == "scratch":
            raise ConfigError(
                "network.features is head-first, and with finetune.start scratch no head is trained first; set "
                "network.features to frozen or trained, or finetune.start to pretrained"
            )
        if not (network.has_library_weights and network.features != "auto"):
            return
        for kind in ("pretrain", "finetune"):
            if self.training(kind)[0].optimizer == "muon" and not network.is_frozen(kind):
                raise ConfigError(
                    f"{kind}.optimizer is muon, which would undo the pretrained weights of {network.backbone}; give "
                    f"--{kind}.optimizer sgd with a rate for it, or --network.features frozen"
                )

    def _check_division(self, block: str, fewest: int, field_name: str, halves: int) -> None:
        """Raises ConfigError where some number of workers that a training may have cannot share a batch."""
        batch_size, most = self.training(block)[0].batch_size, getattr(self.cluster, field_name)
        parts = _parts(range(fewest, most + 1), halves)
        if batch_size % parts == 0:
            return
        least = 2 * halves if block == "pretrain" or self.finetune.normalises_halves else 0  # images per worker
        below, above = batch_size // parts * parts, -(-max(batch_size, least * most) // parts) * parts
        sizes = " or ".join(str(size) for size in (below, above) if size and size >= least * most)
        first = fewest if fewest < most else 0
        fitting = [
            n
            for n in range(first + 1, most)
            if batch_size % _parts(range(first or n, n + 1), halves) == 0 and batch_size >= least * n
        ]
        remedy = f", or set cluster.{field_name} to {', '.join(map(str, fitting))}" if fitting else ""
        shape = "two equal halves on each of " if halves == 2 else "equal parts for "
        workers = f"{fewest} to {most}" if first else most
        raise ConfigError(
            f"{block}.batch_size {batch_size} cannot be cut into {shape}{workers} workers; "
            f"use a multiple of {parts} ({sizes}){remedy}"
        )

    def _check_normalised(self, block: str, remedy: str, parts: int) -> None:
        """Batch norm has no variance of one image whose last map is one pixel."""
        batch_size = self.training(block)[0].batch_size
        if batch_size < 2 * parts:
            raise ConfigError(
                f"{block}.batch_size {batch_size} is normalised in {parts} parts of one image, and batch norm needs "
                f"two in each; use {2 * parts} or more, or set {remedy}"
            )


def _parts(workers: range, halves: int) -> int:
    """Of what a batch must be a multiple for each of these numbers of workers to share it."""
    return math.lcm(*(halves * count for count in workers))


def decisive_network(network: NetworkConfig) -> dict[str, Any]:
    """The network as plain values, with the SHA-256 of its weights file instead of the path, and of their name.

    Raises CheckpointError for a file that cannot be read.
    """
    try:
        content = sha256_of(network.weights_file) if network.weights_file else ""
    except OSError as error:
        raise CheckpointError(
            f"network.weights_file {network.weights_file} cannot be read: {error.strerror}"
        ) from error
    values = {**to_json(network), "weights_file": content}
    del values["weights"]  # `with_pretrained` has made a file of them
    if not network.is_frozen("pretrain"):
        del values["features"]  # auto or trained, by who asks: the same network
    return values


def decisive_fields(recipe: Recipe) -> dict[str, Any]:
    """The recipe as plain values, without names and without fields that only say where it runs."""
    values = {**to_json(recipe), "network": decisive_network(recipe.network)}
    cluster = values.pop("cluster")
    for name in ("name", "model_name"):
        del values[name]
    del values["data"]["download"]
    workers = [cluster[name] for name in ("num_workers", "pretrain_workers", "cpus_per_worker")]
    if cluster["min_workers"]:
        workers.append(cluster["min_workers"])
    return {**values, "workers": workers, "gpu": recipe.cluster.uses_gpu}
