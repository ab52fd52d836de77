"""PROSER (Zhou et al. 2021) and its parts: the paper's ablation, and what was found best here."""

from proser_core import finetunes
from proser_core.baselines.method import Method, always
from proser_core.recognition.scoring import PlaceholderScore, placeholder_gap

PAPER = "Zhou et al. 2021"
MIXUP = Method("Mixup", f"{PAPER}, ablation", always(placeholder_gap), finetune=finetunes.mixup_only)
DUMMY = Method("Dummy", f"{PAPER}, ablation", always(placeholder_gap), finetune=finetunes.dummies_only)
PROSER = Method("PROSER", PAPER, always(placeholder_gap), finetune=finetunes.paper)
PROSER_TUNED = Method("PROSER, tuned", "docs/method-notes.md", always(PlaceholderScore(0.0)), finetune=finetunes.tuned)
PROSER_RELEASED = Method(
    "PROSER, released form", "authors' released code", always(placeholder_gap), finetune=finetunes.released
)
