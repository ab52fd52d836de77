"""Which network becomes the model: that of the selected point, or the cross-entropy control beside it."""

from collections.abc import Iterable
from dataclasses import dataclass

from proser_core.config import FinetuneConfig, named_finetunes
from proser_core.config.calibration import AUTO, NetworkName
from proser_core.errors import TrainingError
from proser_core.jobs.selection import Row, has_point
from proser_core.recognition.score_choice import settled
from proser_core.recognition.scored_network import ScoredNetwork
from proser_core.titles import CONTROL, PROSER, percent

NAMES: dict[NetworkName, str] = {"proser": PROSER, "control": CONTROL}


@dataclass(frozen=True)
class Candidate:
    """A trial that may become the model: its network by the score that decides, and the row of a table that it is."""

    trial: Row
    scored: ScoredNetwork
    method: str


@dataclass(frozen=True)
class NetworkChoice:
    """The network that becomes the model, by name or by development data; `macro_f1` of each there, by network, a
    fraction."""

    chosen: str
    by_development: bool
    macro_f1: dict[str, float]

    def in_words(self, has_proxy: bool = False) -> str:
        """Which network, and why."""
        found = ", ".join(f"{name} {percent(value)}" for name, value in self.macro_f1.items())
        if self.by_development and CONTROL not in self.macro_f1:
            return f"{self.chosen}; the control was not trained, or failed, so that nothing was chosen"
        why = f"{self.chosen}, {settled(self.by_development, has_proxy)}"
        return f"{why} ({found})" if self.by_development else why


def trained_control(rows: Iterable[Row], split_index: int, own: FinetuneConfig) -> Row | None:
    """The cross-entropy control of the recipe's own point on a class split; None where it has not finished. A JOB.json
    may lack it, or have others too."""
    of_split = (row for row in rows if row["split_index"] == split_index and row["status"] == "finished")
    return next((row for row in of_split if has_point(row, named_finetunes.control(own))), None)


def passed_over(wanted: NetworkName, proser: Candidate, control: Candidate | None) -> str:
    """What development data says where nothing chooses and the control is the better one; else empty."""
    ours, theirs = (each.scored.development_macro_f1 if each else 0.0 for each in (proser, control))
    if wanted != "proser" or theirs <= ours:
        return ""
    return (
        f"On development data {CONTROL} has the larger macro-F1 ({percent(theirs)}, {PROSER} {percent(ours)}), and "
        f"{PROSER} is still used: `--calibration.network {AUTO}` takes the better one."
    )


def choose_network(
    wanted: NetworkName, proser: Candidate, control: Candidate | None
) -> tuple[Candidate, NetworkChoice | None]:
    """The candidate that a recipe names, or that development data chooses; a tie goes to PROSER. No choice where the
    recipe has the default. Raises TrainingError where the control is wanted and has not finished."""
    if wanted == "proser":
        return proser, None
    there = {PROSER: proser} | ({CONTROL: control} if control is not None else {})
    macro_f1 = {name: each.scored.development_macro_f1 for name, each in there.items()}
    chosen = max(macro_f1, key=lambda name: macro_f1[name]) if wanted == AUTO else NAMES[wanted]
    if chosen not in there:
        raise TrainingError(
            "calibration.network is control, and the recipe's control was not trained, or failed (its row says why); "
            "add it to JOB.json, or fix the cause, and run the same command again, or give --calibration.network proser"
        )
    return there[chosen], NetworkChoice(chosen, wanted == AUTO, macro_f1)
