"""The control: a plain cross-entropy fine-tune that sees the same images in the same order as PROSER beside it.

There is one for each of PROSER's schedules, because the schedule alone may change a number.
"""

from proser_core.baselines.max_logit import max_logit
from proser_core.baselines.method import Method, always
from proser_core.config import named_finetunes

CONTROL = "CE control"
CE_CONTROL = Method(
    f"{CONTROL}, MaxLogit",
    "control of PROSER",
    always(max_logit),
    finetune=lambda own: named_finetunes.control(named_finetunes.paper(own)),
)
CE_CONTROL_TUNED = Method(
    f"{CONTROL}, tuned, MaxLogit",
    "control of PROSER, tuned",
    always(max_logit),
    finetune=lambda own: named_finetunes.control(named_finetunes.tuned(own)),
)
