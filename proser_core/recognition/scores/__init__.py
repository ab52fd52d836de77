"""From logits to a score: every way to score a network, by its name."""

from proser_core.recognition.scores.closed_set import MaxLogit, MaxSoftmaxProbability
from proser_core.recognition.scores.openmax import Crosr, OpenMax
from proser_core.recognition.scores.placeholders import PlaceholderGap, UnknownProbability, own_score, placeholder_score
from proser_core.recognition.scores.reconstruction import SmallestError
from proser_core.recognition.scores.score_function import ScoreFunction
from proser_core.recognition.scores.unknown_class import FinishedScore, ZeroLogitGap

SCORES: dict[str, type[ScoreFunction]] = {
    score.name: score for score in (MaxSoftmaxProbability, MaxLogit, OpenMax, PlaceholderGap, UnknownProbability)
}
"""In the order of a table. A score of your own that is added here can be evaluated, saved, loaded and served."""

OF_OWN_NETWORKS: dict[str, type[ScoreFunction]] = {
    score.name: score for score in (Crosr, FinishedScore, SmallestError, ZeroLogitGap)
}
"""Scores that are made for one network of a method's own, and say nothing of others; they are saved, loaded and served
as those of `SCORES`."""

__all__ = [
    "OF_OWN_NETWORKS",
    "SCORES",
    "Crosr",
    "FinishedScore",
    "MaxLogit",
    "MaxSoftmaxProbability",
    "OpenMax",
    "PlaceholderGap",
    "ScoreFunction",
    "SmallestError",
    "UnknownProbability",
    "ZeroLogitGap",
    "own_score",
    "placeholder_score",
]
