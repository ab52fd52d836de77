"""Every method by its name, in the order of a table: scores of the pretrained net, then fine-tunes.

A control is a plain cross-entropy fine-tune that sees the same images in the same order as PROSER. There is one for
each of PROSER's schedules, because the schedule alone may change a number.
"""

from collections.abc import Iterable

from proser_core.baselines.method import Method
from proser_core.config import named_finetunes
from proser_core.recognition.scores import SCORES, MaxLogit, MaxSoftmaxProbability, PlaceholderGap
from proser_core.titles import CONTROL, MAX_LOGIT, PROSER, scored

PAPER = "Zhou et al. 2021"
TUNED = scored(PROSER, "tuned")
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        *(Method(score.name, score.source, score) for score in SCORES.values() if not score.needs_dummies),
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
