"""The methods that PROSER is compared with, one file each, behind one interface: a margin.

A method here scores the logits of a closed-set net; calibration and metrics are those of PROSER.
"""

from proser_core.baselines.max_logit import max_logit
from proser_core.baselines.msp import max_softmax_probability
from proser_core.recognition.scoring import Margin

BASELINES: dict[str, Margin] = {"MSP": max_softmax_probability, "MaxLogit": max_logit}

__all__ = ["BASELINES"]
