"""Every method by its name, in the order of a table: scores of the pretrained net, of networks of methods' own, then
fine-tunes.

A control is a plain cross-entropy fine-tune that sees the same images in the same order as PROSER. There is one for
each of PROSER's schedules, because the schedule alone may change a number.
"""

from collections.abc import Iterable, Mapping

from proser_core.baselines.method import Method, OwnRule
from proser_core.baselines.own_rules import below_threshold, half_probability
from proser_core.config import named_finetunes
from proser_core.recognition.scores import (
    SCORES,
    Crosr,
    FinishedScore,
    MaxLogit,
    MaxSoftmaxProbability,
    OpenMax,
    PlaceholderGap,
    ScoreFunction,
    SmallestError,
    ZeroLogitGap,
)
from proser_core.titles import C2AE, CONTROL, CROSR, MAX_LOGIT, PROSER, scored

PAPER = "Zhou et al. 2021"
TUNED = scored(PROSER, "tuned")
YOSHIHASHI = "Yoshihashi et al. 2019"


def _of_network(
    network: str, source: str, scores: Mapping[str, ScoreFunction | type[ScoreFunction]], rule: OwnRule | None = None
) -> list[Method]:
    """The rows of a network of a method's own: its scores by the names of their rows, then MSP and MaxLogit of it,
    which show what the method itself adds. `rule` is that of its authors."""
    own = [Method(name, source, score, network=network, own_rule=rule) for name, score in scores.items()]
    there = {type(method.score) for method in own}
    plain = [score for score in (MaxSoftmaxProbability(), MaxLogit()) if type(score) not in there]
    return [
        *own,
        *(Method(scored(network, score.name), f"control of {network}", score, network=network) for score in plain),
    ]


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        *(Method(score.name, score.source, score) for score in SCORES.values() if not score.needs_dummies),
        *_of_network("G-OpenMax", "Ge et al. 2017", {"G-OpenMax": FinishedScore()}),
        *_of_network(
            "G-OpenMax, interpolated", "released code of Neal et al. 2018", {"G-OpenMax, interpolated": FinishedScore()}
        ),
        *_of_network("OSRCI", "Neal et al. 2018", {"OSRCI": ZeroLogitGap()}),
        *_of_network("C2AE", "Oza and Patel 2019", {C2AE: SmallestError()}, below_threshold),
        *_of_network(
            "LadderNet",
            YOSHIHASHI,
            {"LadderNet + Softmax": MaxSoftmaxProbability(), "LadderNet + OpenMax": OpenMax},
            half_probability,
        ),
        *_of_network(
            "DHRNet",
            YOSHIHASHI,
            {"DHRNet + Softmax": MaxSoftmaxProbability(), "DHRNet + OpenMax": OpenMax, CROSR: Crosr},
            half_probability,
        ),
        *_of_network("GFROSR", "Perera et al. 2020", {"GFROSR": MaxLogit()}),
        *(
            _of_network(f"GFROSR ({part})", "control of GFROSR", {f"GFROSR ({part})": MaxLogit()})[0]
            for part in ("three channels", "six channels alone", "rotation alone")
        ),
        Method(
            scored(CONTROL, MAX_LOGIT),
            f"control of {PROSER}",
            MaxLogit(),
            finetune=lambda own: named_finetunes.control(named_finetunes.paper(own)),
        ),
        Method(
            scored(f"{CONTROL}, tuned", MAX_LOGIT),
            f"control of {TUNED}",
            MaxLogit(),
            finetune=lambda own: named_finetunes.control(named_finetunes.tuned(own)),
        ),
        Method("Mixup", f"{PAPER}, ablation", PlaceholderGap(), finetune=named_finetunes.mixup_only),
        Method("Dummy", f"{PAPER}, ablation", PlaceholderGap(), finetune=named_finetunes.dummies_only),
        Method(PROSER, PAPER, PlaceholderGap(), finetune=named_finetunes.paper),
        Method(TUNED, "docs/method-notes.md", MaxLogit(), finetune=named_finetunes.tuned),
        Method(
            f"{PROSER}, released form", "authors' released code", PlaceholderGap(), finetune=named_finetunes.released
        ),
    )
}
"""By the name of the row, in the order of a table. One that is added here has its row in `proser reproduce`, and can be
given to `train`."""


def same_network(names: Iterable[str]) -> list[str]:
    """Methods by name, in the order of a table: those that are named, and MSP and MaxLogit of each network of their
    own, which show what a method itself adds."""
    named = set(names)
    networks = {METHODS[name].network for name in named} - {""}

    def stands_beside(method: Method) -> bool:
        is_plain = type(method.score) in (MaxSoftmaxProbability, MaxLogit)
        return is_plain and method.network in networks

    return [name for name, method in METHODS.items() if name in named or stands_beside(method)]
