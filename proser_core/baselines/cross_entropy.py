"""The control: a plain cross-entropy fine-tune that sees the same images in the same order as PROSER beside it.

There is one for each of PROSER's schedules, because the schedule alone may change a number.
"""

from proser_core import titles
from proser_core.baselines.max_logit import max_logit
from proser_core.baselines.method import Method, always
from proser_core.config import named_finetunes

CE_CONTROL = Method(
    titles.scored(titles.CONTROL, titles.MAX_LOGIT),
    "control of PROSER",
    always(max_logit),
    finetune=lambda own: named_finetunes.control(named_finetunes.paper(own)),
)
CE_CONTROL_TUNED = Method(
    titles.scored(f"{titles.CONTROL}, tuned", titles.MAX_LOGIT),
    "control of PROSER, tuned",
    always(max_logit),
    finetune=lambda own: named_finetunes.control(named_finetunes.tuned(own)),
)
