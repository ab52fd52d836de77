"""PROSER (Zhou et al. 2021) and its parts: the paper's ablation, and what was found best here."""

from proser_core.baselines.method import Method, always
from proser_core.config import named_finetunes
from proser_core.recognition.scoring import PlaceholderScore, placeholder_gap

PAPER = "Zhou et al. 2021"
MIXUP = Method("Mixup", f"{PAPER}, ablation", always(placeholder_gap), finetune=named_finetunes.mixup_only)
DUMMY = Method("Dummy", f"{PAPER}, ablation", always(placeholder_gap), finetune=named_finetunes.dummies_only)
PROSER = Method("PROSER", PAPER, always(placeholder_gap), finetune=named_finetunes.paper)
PROSER_TUNED = Method(
    "PROSER, tuned", "docs/method-notes.md", always(PlaceholderScore(0.0)), finetune=named_finetunes.tuned
)
PROSER_RELEASED = Method(
    "PROSER, released form", "authors' released code", always(placeholder_gap), finetune=named_finetunes.released
)
