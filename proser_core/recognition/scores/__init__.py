"""From logits to a score: every way to score a network, by its name."""

from proser_core.naming import Named
from proser_core.recognition.scores.all_logits import Energy, GeneralizedEntropy
from proser_core.recognition.scores.angles import Cosine, MaxLogitAndCosine
from proser_core.recognition.scores.boundaries import BoundaryDistance
from proser_core.recognition.scores.closed_set import MaxLogit, MaxSoftmaxProbability
from proser_core.recognition.scores.embedding_score import EmbeddingScore
from proser_core.recognition.scores.gaussians import Mahalanobis, RelativeMahalanobis
from proser_core.recognition.scores.neighbours import EuclideanNeighbour, NormalisedNeighbour
from proser_core.recognition.scores.openmax import Crosr, OpenMax
from proser_core.recognition.scores.own_networks import FinishedScore, SmallestError, ZeroLogitGap
from proser_core.recognition.scores.placeholders import PlaceholderGap, UnknownProbability, own_score, placeholder_score
from proser_core.recognition.scores.score_function import ScoreFunction
from proser_core.recognition.scores.vim import VirtualLogit

SCORES: dict[str, type[ScoreFunction]] = Named(
    "score of SCORES", (MaxSoftmaxProbability, MaxLogit, OpenMax, PlaceholderGap, UnknownProbability)
)
"""In the order of a table. A score of your own that is added here can be evaluated, saved, loaded and served."""

FURTHER_SCORES: dict[str, type[ScoreFunction]] = Named(
    "score of FURTHER_SCORES",
    (
        Energy,
        GeneralizedEntropy,
        Cosine,
        MaxLogitAndCosine,
        NormalisedNeighbour,
        EuclideanNeighbour,
        Mahalanobis,
        RelativeMahalanobis,
        VirtualLogit,
        BoundaryDistance,
    ),
)
"""Scores of any network that are no rows of the paper's tables. With those of `SCORES` they are what one is chosen
among; they are saved, loaded and served alike."""

OF_OWN_NETWORKS: dict[str, type[ScoreFunction]] = Named(
    "score of OF_OWN_NETWORKS", (Crosr, FinishedScore, SmallestError, ZeroLogitGap)
)
"""Scores that are made for one network of a method's own, and say nothing of others; they are saved, loaded and served
as those of `SCORES`."""

__all__ = [
    "FURTHER_SCORES",
    "OF_OWN_NETWORKS",
    "SCORES",
    "BoundaryDistance",
    "Cosine",
    "Crosr",
    "EmbeddingScore",
    "Energy",
    "EuclideanNeighbour",
    "FinishedScore",
    "GeneralizedEntropy",
    "Mahalanobis",
    "MaxLogit",
    "MaxLogitAndCosine",
    "MaxSoftmaxProbability",
    "NormalisedNeighbour",
    "OpenMax",
    "PlaceholderGap",
    "RelativeMahalanobis",
    "ScoreFunction",
    "SmallestError",
    "UnknownProbability",
    "VirtualLogit",
    "ZeroLogitGap",
    "own_score",
    "placeholder_score",
]
