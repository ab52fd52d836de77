"""The whole configuration of a run: a `Recipe`, made of one frozen block for each concern.

A field stands with its default, its unit and its source; its check stands in `__post_init__`.
`method notes` are docs/method-notes.md.
"""

import functools
import hashlib
import json
import math
import os
import re
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from proser_core.errors import CheckpointError, ConfigError
from proser_core.naming import unknown_name

Objective = Literal["proser", "cross_entropy"]
MixupPlace = Literal["manifold", "vanilla"]
OptimizerName = Literal["sgd", "muon"]
Schedule = Literal["constant", "one_cycle", "cosine", "cosine_restarts"]
Precision = Literal["auto", "bf16", "fp32"]
BatchNormSharing = Literal["shared", "separate"]
BatchUse = Literal["half", "all"]
Start = Literal["pretrained", "scratch"]
SplitPoint = Literal["early", "middle", "late"]
Flips = Literal["random", "alternating"]
LossForm = Literal["paper", "released"]


def _require(condition: bool, name: str, got: object, need: str) -> None:
    if not condition:
        raise ConfigError(f"{name} is {got!r}; it must be {need}")


def _require_choice(name: str, got: str, choices: Any) -> None:
    options = get_args(choices)
    if got not in options:
        raise ConfigError(unknown_name(f"choice for {name}", got, options))


def _is_number(value: float, low: float, *, open_end: bool = False) -> bool:
    return math.isfinite(value) and (value > low if open_end else value >= low)


@dataclass(frozen=True)
class DataConfig:
    """Which images, which classes are known, and what is held out."""

    name: str = "cifar100"
    """Data set with the known and the unknown test classes (see `proser list`)."""
    image_size: int = 32
    """Height and width in pixels that every image is brought to. Source: Neal et al. 2018."""
    num_known: int = 15
    """Known classes K. 0 is all of them: hyperparameters are chosen on a proxy that holds some out, then
    all are trained on. Source: sec. Ablation, CIFAR100 with 15 known classes."""
    unknown: str = ""
    """Data set of the unknown test classes, such as cifar100 for CIFAR+10; empty is the same one."""
    unknown_settings: tuple[int, ...] = (15, 30, 45, 60, 85)
    """Numbers of unknown test classes, nested: one model is scored in each setting. May be empty."""
    outliers: tuple[str, ...] = ()
    """Outlier sets (see `proser list`), each a test setting of its own with as many images as there are known
    test images. Then `unknown_settings` is empty. Source: sec. Open-Set Recognition, MNIST and CIFAR10."""
    development: str = "cifar10"
    """Unknowns that choose hyperparameters: the name of another data set, `held-out-N` for N further
    classes of the same one, or `none`. Disjoint from every test unknown. Source: method notes."""
    split_family: str = ""
    """Published class lists, by the name of their family. Known are those of the trial `split_index`, unknown all the
    others, or the family's own of `unknown`. Empty permutes the class ids. Source:
    proser_core/data/splits/families.py."""
    split_index: int = 0
    """Which class split: the seed of the permutation of the class ids, or the trial of a family.
    Source: method notes."""
    val_fraction: float = 0.1
    """Share of each known class's training images that is held out for calibration and
    selection, at least one image a class. Source: method notes."""
    flip: bool = True
    """Augment with horizontal flips (not for digits). Source: habit of the field."""
    padding: int = 4
    """Pixels of zero padding for random crops. Source: habit of the field."""
    streaming: bool = False
    """Decode images while training instead of before: for sets larger than memory. Of Parquet files and
    image folders; the result is the same. All machines must see an image folder at the same path."""
    download: bool = False
    """Let torchvision download the data set where `--data-dir` does not hold it."""

    def __post_init__(self) -> None:
        _require(self.image_size >= 8, "data.image_size", self.image_size, "at least 8 pixels")
        _require(
            self.num_known == 0 or self.num_known >= 2, "data.num_known", self.num_known, "2 or more, or 0 for all"
        )
        settings = self.unknown_settings
        _require(
            all(n >= 1 for n in settings) and list(settings) == sorted(set(settings)),
            "data.unknown_settings",
            settings,
            "increasing positive numbers of classes, such as 15 30 45",
        )
        if self.outliers:
            self._check_outliers()
        if self.knows_all:
            _require(not settings, "data.unknown_settings", settings, "empty where data.num_known is 0, all classes")
            for name in ("unknown", "split_family"):  # the proxy draws what it holds out from the data set itself
                value = getattr(self, name)
                _require(not value, f"data.{name}", value, "empty where data.num_known is 0, all classes")
            _require(
                not self.has_development,
                "data.development",
                self.development,
                "none where data.num_known is 0, all classes: a proxy holds some out to choose by",
            )
        _require(self.split_index >= 0, "data.split_index", self.split_index, "0 or more")
        _require(0 < self.val_fraction < 1, "data.val_fraction", self.val_fraction, "between 0 and 1")
        _require(0 <= self.padding < self.image_size, "data.padding", self.padding, "0 or more, below the image size")
        if self.development.startswith("held-out-"):
            count = self.development.removeprefix("held-out-")
            _require(count.isdecimal() and int(count) >= 1, "data.development", self.development, "like held-out-2")
        _require(
            self.development not in (self.name, self.unknown),
            "data.development",
            self.development,
            "another data set than the test's, or held-out-N for N further classes of data.name; else test unknowns "
            "would choose",
        )
        _require(self.unknown != self.name, "data.unknown", self.unknown, "another data set, or empty for the same")
        _require(
            not (self.unknown and self.streaming),
            "data.unknown",
            self.unknown,
            "empty where data.streaming is on: images of one data set are streamed",
        )

    def _check_outliers(self) -> None:
        """An outlier set is all that is unknown in its setting."""
        names = self.outliers
        _require(len(set(names)) == len(names), "data.outliers", names, "different outlier sets")
        for field_name in ("unknown_settings", "unknown", "split_family"):
            value = getattr(self, field_name)
            _require(not value, f"data.{field_name}", value, "empty where data.outliers are the unknown test images")
        _require(
            not self.knows_all,
            "data.num_known",
            self.num_known,
            f"the number of known classes of {self.name} (all of them, if you like) where data.outliers are given; 0 "
            "asks for a proxy",
        )
        _require(
            self.development not in names,
            "data.development",
            self.development,
            "another data set than data.outliers, or none; else test unknowns would choose",
        )
        _require(
            not self.streaming,
            "data.outliers",
            names,
            "empty where data.streaming is on: images of one data set are streamed",
        )

    @property
    def settings(self) -> tuple[int | str, ...]:
        """The test settings: numbers of unknown classes, or names of outlier sets."""
        return self.outliers or self.unknown_settings

    @property
    def knows_all(self) -> bool:
        """Whether every class is to be known."""
        return self.num_known == 0

    @property
    def has_development(self) -> bool:
        """Whether there are unknowns to choose hyperparameters by."""
        return self.development != "none"

    @property
    def num_development(self) -> int:
        """Classes of the data set itself that are kept for development (0: another data set is used)."""
        prefix = "held-out-"
        return int(self.development.removeprefix(prefix)) if self.development.startswith(prefix) else 0


@dataclass(frozen=True)
class NetworkConfig:
    """The closed-set network phi and W."""

    backbone: str = "classifier32"
    """Embedding network. For 32 pixels: classifier32 (128-d, average-pooled, as in ARPL and MLS),
    classifier32_flat (flattened, as in Neal et al. 2018), classifier32_2d (2-d, to be drawn), resnet18,
    wide_resnet28_10 (the authors' released code). For 64 pixels and more: resnet18_224, resnet34_224,
    resnet50_224 (torchvision)."""
    dropout: float = 0.0
    """Rate of the three spatial dropouts of classifier32 (0.2 in Neal et al. 2018; 0 suits
    short schedules, which input dropout slows down badly), or of the dropout in each block of
    wide_resnet28_10 (0.3 as released). The other backbones have none."""
    split: SplitPoint = "middle"
    """Where phi is cut into phi_pre and phi_post (eq:mixup): before the last stage (middle, as in the
    authors' released code), one stage before that (early), or before the last block (late)."""
    weights_file: str = ""
    """Torchvision's weights for resnet18_224, resnet34_224 or resnet50_224 to begin from: a local
    .pth or .safetensors file, which all machines must see; `proser job` writes it beside JOB.json.
    Its content decides a result, its place does not."""

    def __post_init__(self) -> None:
        _require_choice("network.split", self.split, SplitPoint)
        _require(0 <= self.dropout < 1, "network.dropout", self.dropout, "at least 0 and below 1")


@dataclass(frozen=True)
class OptimizerConfig:
    """Gradient descent with momentum over a number of epochs."""

    epochs: int = 20
    """Passes over the training images. Source: method notes."""
    batch_size: int = 64
    """Images in one global batch, over all workers. Source: method notes."""
    optimizer: OptimizerName = "sgd"
    """sgd, or muon (Jordan 2024): the momentum of each convolution is made orthogonal and the scale of its
    weight is fixed; all else has SGD at 5 times `lr`. Each needs a rate of its own: --pretraining fast sets
    muon and its rate, short sets those of sgd. Source: method notes."""
    lr: float = 0.1
    """Peak learning rate; 0.02 suits muon. Source: method notes."""
    schedule: Schedule = "one_cycle"
    """Learning-rate schedule, advanced every step: one_cycle (up over 30 %, down by a cosine),
    cosine (5 % warm-up, then down), cosine_restarts (1/60 warm-up, then `restarts + 1` equal falls
    to a thousandth of the peak; Vaze et al. 2022), constant. Source: method notes."""
    restarts: int = 2
    """Restarts of cosine_restarts. Source: Vaze et al. 2022, released code."""
    momentum: float = 0.9
    """Momentum. Source: supplement, sec. Implementation Details."""
    nesterov: bool = False
    """Nesterov's form of momentum. Source: habit of short schedules."""
    weight_decay: float = 5e-4
    """L2 penalty; with muon, of what is no convolution. Source: the authors' released code."""
    averaging: float = 0.0
    """Decay of an exponential moving average of the weights, a step; the averaged weights are the
    result. 0 keeps the last ones. Source: method notes."""
    flips: Flips = "random"
    """How images are mirrored where `data.flip` allows it; without it, both mirror none. random, or
    alternating (each image is mirrored in every second epoch). Source: Jordan 2024 (airbench)."""
    rand_augment: int = 0
    """Magnitude 0..30 of one RandAugment operation an image (Cubuk et al. 2020); 0 is none."""

    def _check(self, block: str) -> None:
        _require(self.epochs >= 1, f"{block}.epochs", self.epochs, "at least 1")
        _require(self.batch_size >= 2, f"{block}.batch_size", self.batch_size, "at least 2 images")
        _require_choice(f"{block}.optimizer", self.optimizer, OptimizerName)
        _require(_is_number(self.lr, 0, open_end=True), f"{block}.lr", self.lr, "a finite number above 0")
        _require_choice(f"{block}.schedule", self.schedule, Schedule)
        _require(0 <= self.momentum < 1, f"{block}.momentum", self.momentum, "at least 0 and below 1")
        _require(_is_number(self.weight_decay, 0), f"{block}.weight_decay", self.weight_decay, "finite and at least 0")
        _require(self.restarts >= 0, f"{block}.restarts", self.restarts, "0 or more")
        _require(not self.nesterov or self.momentum > 0, f"{block}.momentum", self.momentum, "above 0 with nesterov")
        _require(0 <= self.averaging < 1, f"{block}.averaging", self.averaging, "at least 0 and below 1")
        _require_choice(f"{block}.flips", self.flips, Flips)
        _require(0 <= self.rand_augment <= 30, f"{block}.rand_augment", self.rand_augment, "between 0 and 30")


@dataclass(frozen=True)
class PretrainConfig(OptimizerConfig):
    """Closed-set training by cross-entropy, from scratch."""

    label_smoothing: float = 0.0
    """Share of the target that goes to all classes alike. Source: Vaze et al. 2022."""

    def __post_init__(self) -> None:
        self._check("pretrain")
        smoothing = self.label_smoothing
        _require(0 <= smoothing < 1, "pretrain.label_smoothing", smoothing, "at least 0 and below 1")


@dataclass(frozen=True)
class FinetuneConfig(OptimizerConfig):
    """Fine-tuning with placeholders; the defaults are the paper's."""

    epochs: int = 10
    """Passes over the training images. Source: the authors' released code."""
    batch_size: int = 128
    """Images in one global batch. Source: supplement."""
    lr: float = 0.001
    """Learning rate. Source: supplement, sec. Implementation Details."""
    schedule: Schedule = "constant"
    """Learning-rate schedule. Source: the authors' released code."""
    objective: Objective = "proser"
    """proser, or cross_entropy for the control that sees the same images in the same order."""
    start: Start = "pretrained"
    """pretrained begins from the closed-set network, as in the paper; scratch trains placeholders
    from the first epoch, on a fresh network. Source: method notes."""
    batch_use: BatchUse = "half"
    """half feeds one half of each batch to l1 and the other to l2 (supplement); all feeds every
    image to both. Source: method notes."""
    beta: float = 1.0
    """Weight of the placeholder term in l1 (eq:dummyloss). Source: supplement."""
    gamma: float = 0.1
    """Weight of the mixture loss l2 (eq:lmix). Source: supplement."""
    num_dummies: int = 5
    """Dummy classifiers C. Source: supplement."""
    alpha: float = 2.0
    """The mixing ratio lambda is drawn from Beta(alpha, alpha). Source: supplement."""
    mixup: MixupPlace = "manifold"
    """manifold mixes hidden representations; vanilla mixes images (phi_pre is the identity)."""
    mixture_batch_norm: BatchNormSharing = "shared"
    """Whether mixtures share the batch statistics of clean images after the split point, or are
    normalised apart and leave the running statistics alone. Source: method notes."""
    loss_form: LossForm = "paper"
    """released: the first term of l1 and l2 see all C dummies, K+C logits, l2's target is the first of
    them, and pairs of one class are mixed too. Source: the authors' released code; method notes."""

    def __post_init__(self) -> None:
        self._check("finetune")
        _require_choice("finetune.objective", self.objective, Objective)
        _require_choice("finetune.start", self.start, Start)
        _require(
            self.optimizer == "sgd" or self.start == "scratch",
            "finetune.optimizer",
            self.optimizer,
            "sgd with finetune.start pretrained: muon gives each convolution a scale of its own choice",
        )
        _require_choice("finetune.batch_use", self.batch_use, BatchUse)
        _require_choice("finetune.mixup", self.mixup, MixupPlace)
        _require_choice("finetune.mixture_batch_norm", self.mixture_batch_norm, BatchNormSharing)
        _require_choice("finetune.loss_form", self.loss_form, LossForm)
        _require(
            self.batch_size % 2 == 0,
            "finetune.batch_size",
            self.batch_size,
            f"even, because half of a batch feeds each loss; use {self.batch_size + 1}",
        )
        _require(_is_number(self.beta, 0), "finetune.beta", self.beta, "finite and at least 0")
        _require(_is_number(self.gamma, 0), "finetune.gamma", self.gamma, "finite and at least 0")
        _require(self.num_dummies >= 1, "finetune.num_dummies", self.num_dummies, "at least 1")
        _require(_is_number(self.alpha, 0, open_end=True), "finetune.alpha", self.alpha, "finite and above 0")


@dataclass(frozen=True)
class CalibrationConfig:
    """Which score PROSER's decisions are made with, and how many known images its bias keeps known."""

    target_rate: float = 0.95
    """Share of validation images that stay known. Source: sec. Calibration."""
    dummy_weight: float = 1.0
    """Weight w of the dummies in PROSER's score `w * max dummy logit - max known logit`: 1 is the
    paper's gap, 0 the maximum logit of the network trained with placeholders. Source: method notes."""

    def __post_init__(self) -> None:
        rate = self.target_rate
        _require(math.isfinite(self.dummy_weight), "calibration.dummy_weight", self.dummy_weight, "finite")
        _require(0 < rate <= 1, "calibration.target_rate", rate, "above 0 and at most 1")


@dataclass(frozen=True)
class ClusterConfig:
    """What the trainings run on, under Ray or in the one process of a machine without it. Worker counts,
    threads, and CPU or GPU, change a result; the rest, which is Ray's alone, does not."""

    num_workers: int = 1
    """DDP workers of one fine-tune. One worker is a reused Tune actor; more run as a TorchTrainer."""
    pretrain_workers: int = 1
    """DDP workers of the pretraining, each with its part of every batch."""
    cpus_per_worker: int = 1
    """CPU cores, and compute threads, of each worker."""
    gpus_per_worker: float = 0.0
    """GPUs of each worker; a fraction puts several one-worker fine-tunes on one GPU."""
    max_concurrent: int = 0
    """Fine-tunes at a time; 0 is as many as the resources allow."""
    address: str = ""
    """Address of a running Ray cluster, or `auto`; empty starts Ray on this machine."""

    def __post_init__(self) -> None:
        for name in ("num_workers", "pretrain_workers", "cpus_per_worker"):
            _require(getattr(self, name) >= 1, f"cluster.{name}", getattr(self, name), "at least 1")
        _require(_is_number(self.gpus_per_worker, 0), "cluster.gpus_per_worker", self.gpus_per_worker, "at least 0")
        _require(self.max_concurrent >= 0, "cluster.max_concurrent", self.max_concurrent, "0 or more")

    @property
    def uses_gpu(self) -> bool:
        """Whether workers train on GPUs."""
        return self.gpus_per_worker > 0


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a result, stored with every run."""

    name: str = "custom"
    """Name of the recipe that these fields began as."""
    space: str = "trade_off"
    """Search space of the sweep (see `proser list`); empty for the recipe's own point alone."""
    seed: int = 0
    """Seed of the validation draw, initial weights, batch order, augmentation and mixing."""
    precision: Precision = "auto"
    """Arithmetic of training: bf16 autocast or fp32; auto is bf16 on GPUs and where the CPU has it.
    Scores and calibration are fp32 always."""
    model_name: str = "proser"
    """Name of the registered model."""
    data: DataConfig = field(default_factory=DataConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    pretrain: PretrainConfig = field(default_factory=PretrainConfig)
    finetune: FinetuneConfig = field(default_factory=FinetuneConfig)
    calibration: CalibrationConfig = field(default_factory=CalibrationConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)

    def __post_init__(self) -> None:
        _require(self.seed >= 0, "seed", self.seed, "0 or more")
        _require_choice("precision", self.precision, Precision)
        _require(
            re.fullmatch(r"[A-Za-z0-9._-]+", self.model_name) is not None,
            "model_name",
            self.model_name,
            "letters, digits, '.', '_' and '-'",
        )
        data = self.data
        _require(
            data.has_development or data.knows_all or not self.space,
            "space",
            self.space,
            "empty where data.development is none: nothing could choose among its points",
        )
        self._check_division("finetune", self.finetune.batch_size, self.cluster.num_workers, halves=2)
        self._check_division("pretrain", self.pretrain.batch_size, self.cluster.pretrain_workers, halves=1)

    def _check_division(self, block: str, batch_size: int, workers: int, halves: int) -> None:
        parts = halves * workers
        if batch_size % parts == 0:
            return
        below, above = batch_size // parts * parts, -(-batch_size // parts) * parts
        sizes = " or ".join(str(size) for size in (below, above) if size > 0)
        counts = ", ".join(str(n) for n in range(1, workers) if batch_size % (halves * n) == 0)
        field_name = "cluster.num_workers" if halves == 2 else "cluster.pretrain_workers"
        shape = "two equal halves on each of " if halves == 2 else "equal parts for "
        remedy = f", or set {field_name} to {counts}" if counts else ""
        raise ConfigError(
            f"{block}.batch_size {batch_size} cannot be cut into {shape}{workers} workers; "
            f"use a multiple of {parts} ({sizes}){remedy}"
        )


def to_json(config: Any) -> dict[str, Any]:
    """Nested plain values of a config block, tuples as lists."""
    return json.loads(json.dumps(asdict(config)))


def decisive_network(network: NetworkConfig) -> dict[str, Any]:
    """The network as plain values, with the SHA-256 of its weights file in the place of the path.

    Raises CheckpointError for a file that cannot be read.
    """
    if not network.weights_file:
        return to_json(network)
    try:
        stat = os.stat(network.weights_file)
        content = _sha256(network.weights_file, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise CheckpointError(
            f"network.weights_file {network.weights_file} cannot be read: {error.strerror}"
        ) from error
    return {**to_json(network), "weights_file": content}


@functools.cache
def _sha256(path: str, size: int, modified: int) -> str:
    """Digest of a file, which is read again once its size or its time of change differs."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def decisive_fields(recipe: Recipe) -> dict[str, Any]:
    """The recipe as plain values, without names and without what only says where it ran."""
    values = {**to_json(recipe), "network": decisive_network(recipe.network)}
    cluster = values.pop("cluster")
    for name in ("name", "model_name"):
        del values[name]
    del values["data"]["download"]
    workers = [cluster[name] for name in ("num_workers", "pretrain_workers", "cpus_per_worker")]
    return {**values, "workers": workers, "gpu": recipe.cluster.uses_gpu}


def from_json(cls: type, values: dict[str, Any]) -> Any:
    """Inverse of `to_json`. Raises ConfigError for a field that `cls` lacks, or that `values` lack."""
    if not isinstance(values, dict):
        raise ConfigError(f"{cls.__name__} is {values!r}; need its fields by name")
    known = {f.name: f for f in fields(cls)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise ConfigError(f"{cls.__name__} has no field {unknown[0]!r}; it has {', '.join(known)}")
    made = {}
    for name, value in values.items():
        kind = known[name].type
        if isinstance(value, dict) and isinstance(kind, type):
            value = from_json(kind, value)
        made[name] = tuple(value) if isinstance(value, list) else value
    try:
        return cls(**made)
    except TypeError as error:  # a field without a default is missing
        raise ConfigError(f"{cls.__name__} is incomplete: {error}") from error


def digest_of(*values: Any) -> str:
    """SHA-256 of JSON-able values; equal values give equal digests on every machine."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=to_json).encode()).hexdigest()
