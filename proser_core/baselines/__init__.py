"""The methods of the tables, one file each behind one interface (`method.py`), in the order of a table."""

from proser_core.baselines.cross_entropy import CE_CONTROL, CE_CONTROL_TUNED
from proser_core.baselines.max_logit import MAX_LOGIT
from proser_core.baselines.method import Method
from proser_core.baselines.msp import MSP
from proser_core.baselines.openmax import OPENMAX
from proser_core.baselines.placeholders import DUMMY, MIXUP, PROSER, PROSER_RELEASED, PROSER_TUNED

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        MSP,
        MAX_LOGIT,
        OPENMAX,
        CE_CONTROL,
        CE_CONTROL_TUNED,
        MIXUP,
        DUMMY,
        PROSER,
        PROSER_TUNED,
        PROSER_RELEASED,
    )
}

__all__ = ["METHODS", "Method"]
