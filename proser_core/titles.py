"""Names of scores, networks, methods and metrics, as every table, figure and model card has them. Light to import."""

import math
from collections.abc import Sequence

MSP, MAX_LOGIT, OPENMAX, GAP, P_UNKNOWN = "MSP", "MaxLogit", "OpenMax", "gap", "p(unknown)"
"""Scores; without the name of a network they are those of the pretrained one."""
ENERGY, GEN, COSINE, MAX_LOGIT_COSINE = "energy", "GEN", "cosine", "MaxLogit+cosine"
KNN, KNN_EUCLIDEAN, MAHALANOBIS, RELATIVE_MAHALANOBIS = "KNN", "KNN-Euclidean", "Mahalanobis", "relative-Mahalanobis"
VIM, FDBD = "ViM", "fDBD"
"""Further scores of any network, among which one may be chosen."""
CHOSEN, MIRRORED = "chosen score", "mirrored"
"""What else a row may say of its score: chosen on development data; averaged with the mirrored image."""
PROSER = "PROSER"
"""A network with placeholders and its own score."""
CROSR, C2AE = "CROSR", "C2AE"
"""Scores of one network of a method's own, named after their method."""
PRETRAINED, CONTROL = "pretrained net", "CE control"
"""Networks without placeholders; the control is trained by cross-entropy, as long as PROSER, on the same images in the
same order."""
OWN_POINT = f"{PROSER}, recipe's own point"
"""A row beside the selected trial."""
BEST_TRIAL = f"{PROSER}, best trial"
"""A row beside an ensemble of trials."""
CE_ENSEMBLE = "CE ensemble of 2"
"""The mean logits of the pretrained net and the control, beside an ensemble of trials."""
METRICS = {
    "macro_f1": "macro-F1",
    "auroc": "AUROC",
    "aupr": "AUPR",
    "fpr95": "FPR at 95 % TPR",
    "oscr": "OSCR",
    "closed_set_accuracy": "closed-set accuracy",
    "balanced_accuracy": "balanced accuracy",
    "known_rate": "known images that stay known",
    "known_accuracy": "known images named correctly",
    "unknown_found": "unknown images detected",
}
SMALLER_IS_BETTER = ("fpr95", "seconds")
"""Metrics of which smaller values are better; of others larger ones are."""
FIELDS = {
    "beta": "beta, weight of the placeholder loss",
    "gamma": "gamma, weight of the mixture loss",
    "num_dummies": "C, dummy classifiers",
    "alpha": "alpha of the Beta distribution",
    "mixup": "where images are mixed",
    "epochs": "epochs of fine-tuning",
    "lr": "learning rate of fine-tuning",
}
"""Fields of `finetune` that a search space usually varies, in the order of a table."""
SHORT = {"num_dummies": "C"}
"""Fields of `finetune` as the paper writes them."""
DATA_SETS = {
    "svhn": "SVHN",
    "mnist": "MNIST",
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
    "tiny-imagenet": "Tiny-ImageNet",
    "omniglot": "Omniglot",
    "mnist-noise": "MNIST-noise",
    "noise": "Noise",
    "imagenet-crop": "ImageNet-crop",
    "imagenet-resize": "ImageNet-resize",
    "lsun-crop": "LSUN-crop",
    "lsun-resize": "LSUN-resize",
}
"""Data sets and outlier sets of the paper."""
MOST_NAMED = 12
"""Classes that a sentence names."""


def counted(count: int, thing: str) -> str:
    """A number of things in words: 1 worker, 2 workers."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """1:02:03, or 2:03 below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def first_names(names: Sequence[str]) -> str:
    """Names in a sentence: MOST_NAMED of them, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def scored(network: str, score: str) -> str:
    """The name of a network by another score than its own."""
    return f"{network}, {score}"


def percent(value: float) -> str:
    """A fraction as a percentage with one decimal."""
    return f"{100 * value:.1f}"


def best_of(metric: str, values: Sequence[float]) -> list[bool]:
    """Whether each value, a fraction, is the best of a metric as it is shown, so that ties all are. NaN never is, nor
    one that stands alone, nor a known rate, which has a target."""
    name, found = metric.rpartition("/")[2], [value for value in values if not math.isnan(value)]
    if len(found) < 2 or name == "known_rate":
        return [False] * len(values)
    best = percent(min(found) if name in SMALLER_IS_BETTER else max(found))
    return [percent(value) == best for value in values]


def best_marked(metric: str, values: Sequence[float], mark: str = "**{}**") -> list[str]:
    """Values of a metric, fractions, in percent, the best ones as in `mark`; a dash for NaN."""
    found = zip(values, best_of(metric, values), strict=True)
    return [
        (mark if is_best else "{}").format("-" if math.isnan(value) else percent(value)) for value, is_best in found
    ]
