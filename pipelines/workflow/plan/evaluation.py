"""What an evaluation takes where the logits that trainings leave are not all that it needs."""

from pipelines.workflow.plan.trainings import Costs, SplitPlan
from proser_core.recognition.embedding_table import INDEX_SIZE


def seconds_of_passes(split: SplitPlan, costs: Costs, networks: int) -> float:
    """Seconds that so many networks take to go through a class split's images once more, one after the other in this
    process, as fast as the trainings that are to come score them; mirrored ones too if the recipe asks for it. 0 where
    they need not, or have the embeddings of a frozen backbone."""
    recipe, mirror = split.recipe, split.recipe.calibration.mirror
    frozen = recipe.network.is_frozen("finetune")
    cost = costs.get("pretrain" if frozen else "finetune") or (None if frozen else costs["pretrain"])
    if not recipe.calibration.reads_embeddings or cost is None or (frozen and not mirror):
        return 0.0
    if recipe.network.is_frozen("pretrain") and not mirror:
        networks -= 1  # the pretrained one
    passes = 2 if mirror else 1
    at_once = 1 if recipe.cluster.uses_gpu else cost.at_once  # one GPU, or the cores of all trainings
    images = split.scored + min(split.images["train"], INDEX_SIZE)
    return networks * passes * images / (at_once * cost.step.scored_per_second)
