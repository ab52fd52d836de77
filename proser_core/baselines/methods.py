"""Every method by its name, in the order of a table: scores of the pretrained net, of networks of methods' own, then
fine-tunes.

A control is a plain cross-entropy training that sees the same images in the same order as PROSER. There is one for each
of PROSER's schedules, because the schedule alone may change a number.
"""

from collections.abc import Callable, Iterable, Mapping

from proser_core.baselines.method import Method, OwnRule
from proser_core.baselines.own_rules import below_threshold, half_probability
from proser_core.config import FinetuneConfig, Recipe, named_finetunes
from proser_core.naming import Named
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
TUNED, FROM_SCRATCH = scored(PROSER, "tuned"), scored(PROSER, "from scratch")
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


def _from_scratch(recipe: Recipe) -> FinetuneConfig:
    """Placeholders from the first epoch on, as long as the pretraining that the recipe states."""
    return named_finetunes.from_the_first_epoch(named_finetunes.tuned(recipe.finetune), recipe.pretrain)


def _control_of(
    method: str, finetune: Callable[[Recipe], FinetuneConfig], detail: str = "", by_default: bool = True
) -> Method:
    """The maximum logit of the cross-entropy training beside a fine-tune."""
    network = scored(CONTROL, detail) if detail else CONTROL
    return Method(
        scored(network, MAX_LOGIT),
        f"control of {method}",
        MaxLogit(),
        finetune=lambda recipe: named_finetunes.control(finetune(recipe)),
        by_default=by_default,
    )


def _named(finetune: Callable[[FinetuneConfig], FinetuneConfig]) -> Callable[[Recipe], FinetuneConfig]:
    return lambda recipe: finetune(recipe.finetune)


METHODS: dict[str, Method] = Named(
    "method",
    (
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
        _control_of(PROSER, _named(named_finetunes.paper)),
        _control_of(TUNED, _named(named_finetunes.tuned), "tuned"),
        _control_of(FROM_SCRATCH, _from_scratch, "from scratch", by_default=False),
        Method("Mixup", f"{PAPER}, ablation", PlaceholderGap(), finetune=_named(named_finetunes.mixup_only)),
        Method("Dummy", f"{PAPER}, ablation", PlaceholderGap(), finetune=_named(named_finetunes.dummies_only)),
        Method(PROSER, PAPER, PlaceholderGap(), finetune=_named(named_finetunes.paper)),
        Method(TUNED, "docs/method-notes.md", MaxLogit(), finetune=_named(named_finetunes.tuned)),
        Method(FROM_SCRATCH, "docs/method-notes.md", MaxLogit(), finetune=_from_scratch, by_default=False),
        Method(
            f"{PROSER}, released form",
            "authors' released code",
            PlaceholderGap(),
            finetune=_named(named_finetunes.released),
        ),
    ),
)
"""Methods by the name of their row, in the order of a table. One that is added here has its row in `proser reproduce`,
and can be given to `train`."""


def same_network(names: Iterable[str]) -> list[str]:
    """Methods by name, in the order of a table: those that are named, and MSP and MaxLogit of each network of their
    own, which show what a method itself adds."""
    named = set(names)
    networks = {METHODS[name].network for name in named} - {""}

    def stands_beside(method: Method) -> bool:
        is_plain = type(method.score) in (MaxSoftmaxProbability, MaxLogit)
        return is_plain and method.network in networks

    return [name for name, method in METHODS.items() if name in named or stands_beside(method)]
