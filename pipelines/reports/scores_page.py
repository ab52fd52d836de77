"""tables/scores.md: all scores of each network side by side, and which of them development data chose."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.reports.page import markdown_table
from proser_core.data.splits.class_split import ClassSplit, in_words, where
from proser_core.recognition.score_choice import MEAN, settled
from proser_core.titles import METRICS, best_marked

SCORES_PAGE = "scores.md"
PAIR = ("auroc", "macro_f1")


def choice_facts(evaluation: Mapping[str, Any]) -> list[str]:
    """Which score decides for each network, which network becomes the model, and whether a better one was passed over,
    in a sentence each; nothing where the recipe has no choice and misses none."""
    choices, network = evaluation["choices"], evaluation["network"]
    found = "; ".join(f"{name}: {choice['chosen']}{_best(choice)}" for name, choice in choices.items())
    page = f" (`tables/{SCORES_PAGE}` has all)" if compares_scores(evaluation) else ""
    scores = f"Scores, {_how(evaluation)}{page}: {found}." if choices else ""
    taken = f"Network of the model: {network}." if network else evaluation["passed_over"]
    return [fact for fact in (scores, taken) if fact]


def compares_scores(evaluation: Mapping[str, Any]) -> bool:
    """Whether there are scores, and unknown images to compare them by: what the page is made of."""
    rows = (row for choice in evaluation["choices"].values() for row in choice["scores"].values())
    return any(name.rpartition("/")[2] == "auroc" for row in rows for name in row["flat"])


def scores_page(evaluation: Mapping[str, Any], split: ClassSplit) -> str:
    """Markdown with one table per network: a row per score; development data first, the chosen score marked."""
    parts = ["# Scores\n"]
    for network, choice in evaluation["choices"].items():
        rows = choice["scores"]
        sets = list(next(iter(rows.values()))["development"])
        columns = [_pairs([each["development"][name] for each in rows.values()], "") for name in sets]
        columns += [_pairs([each["flat"] for each in rows.values()], f"{where(each)}/") for each in split.settings]
        names = [f"{name} (chosen)" if name == choice["chosen"] else name for name in rows]
        head = ["score", *(f"development, {name}" for name in sets), *(in_words(each) for each in split.settings)]
        parts += [f"## {network}\n", markdown_table(head, list(zip(names, *columns, strict=True))), ""]
        parts += [f"{name}: {reason}\n" for name, reason in choice["failures"].items()]
    pair = " / ".join(METRICS[name] for name in PAIR)
    parts.append(
        f"{pair} in percent, each score calibrated by the same rule, the best bold. The score that decides was "
        f"{_how(evaluation)}; test images chose nothing.\n"
    )
    return "\n".join(parts)


def _how(evaluation: Mapping[str, Any]) -> str:
    by_development = any(choice["by_development"] for choice in evaluation["choices"].values())
    return settled(by_development, evaluation["proxy"] is not None, MEAN)


def _best(choice: Mapping[str, Any]) -> str:
    best = ", ".join(f"{name} on {unknown}" for unknown, name in choice["best"].items())
    return f" (best: {best})" if best else ""


def _pairs(metrics: Sequence[Mapping[str, float]], prefix: str) -> list[str]:
    """AUROC / macro-F1 of each score, the best of either bold."""
    cells = [best_marked(name, [each[prefix + name] for each in metrics]) for name in PAIR]
    return [" / ".join(pair) for pair in zip(*cells, strict=True)]
