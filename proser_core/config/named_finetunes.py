"""Fine-tunes that have a name: the paper's, the one found best here, the released form, and their controls.

Each is a function of a recipe's own fine-tune: what its source states is set, and the rest, such as the number of
epochs, stays the recipe's.
"""

from dataclasses import fields, replace

from proser_core.config import FinetuneConfig, OptimizerConfig, PretrainConfig

PLACEHOLDER_FIELDS = ("beta", "gamma", "num_dummies", "alpha", "batch_use", "mixup", "mixture_batch_norm", "loss_form")
"""Fields that mean nothing to a fine-tune without placeholders."""
TUNED = FinetuneConfig(batch_size=64, lr=0.02, schedule="one_cycle", batch_use="all", gamma=0.0)
"""The fine-tune that was found best on development data after 60 epochs of SGD (docs/results/search.md): dummies alone,
every image in the loss, a learning rate that rises and falls; decided by the maximum logit."""
STATED = (
    "objective",
    "start",
    "batch_size",
    "optimizer",
    "momentum",
    "nesterov",
    "lr",
    "schedule",
    *PLACEHOLDER_FIELDS,
)
"""Fields that a named fine-tune sets, whatever the recipe's own says."""


def paper(base: FinetuneConfig) -> FinetuneConfig:
    """PROSER as the paper has it (supplement, sec. Implementation Details)."""
    return _like(FinetuneConfig(), base)


def tuned(base: FinetuneConfig) -> FinetuneConfig:
    """The fine-tune of PROSER that was found best here."""
    return _like(TUNED, base)


def from_the_first_epoch(base: FinetuneConfig, pretrain: PretrainConfig) -> FinetuneConfig:
    """Placeholders from the first epoch on, in the place of a fine-tune: its losses on the schedule of a pretraining,
    which a fresh network goes through once."""
    schedule = {field.name: getattr(pretrain, field.name) for field in fields(OptimizerConfig)}
    return replace(base, start="scratch", **schedule)


def mixup_only(base: FinetuneConfig) -> FinetuneConfig:
    """Data placeholders alone; gamma 10 stands for the paper's infinity (fig. Macro F1 against varying openness)."""
    return replace(paper(base), beta=0.0, gamma=10.0, num_dummies=1)


def dummies_only(base: FinetuneConfig) -> FinetuneConfig:
    """Classifier placeholders alone (fig. Macro F1 against varying openness)."""
    return replace(paper(base), gamma=0.0)


def released(base: FinetuneConfig) -> FinetuneConfig:
    """The losses of the authors' released code with the weights that it fixes; C and alpha, which are its options, are
    the paper's."""
    return replace(paper(base), loss_form="released", gamma=0.01)


def control(tuned: FinetuneConfig) -> FinetuneConfig:
    """The cross-entropy fine-tune beside one with placeholders, whose fields do not matter to it."""
    plain = FinetuneConfig()
    return replace(tuned, objective="cross_entropy", **{name: getattr(plain, name) for name in PLACEHOLDER_FIELDS})


def _like(source: FinetuneConfig, base: FinetuneConfig) -> FinetuneConfig:
    return replace(base, **{name: getattr(source, name) for name in STATED})
