"""What an evaluation takes where the logits that trainings leave are not all that it needs."""

from pipelines.workflow.plan import Costs, SplitPlan
from proser_core.recognition.embedding_table import INDEX_SIZE


def seconds_of_passes(split: SplitPlan, costs: Costs, networks: int) -> float:
    """Of so many networks that go through a class split's images once more, mirrored ones too if the recipe asks for
    it; 0 where they need not, or have the embeddings of a frozen backbone."""
    recipe = split.recipe
    if recipe.network.is_frozen("pretrain") or not recipe.calibration.reads_embeddings:
        return 0.0
    passes = 2 if recipe.calibration.mirror else 1
    cost = next(reversed(costs.values()))
    images = split.scored + min(split.images["train"], INDEX_SIZE)
    return networks * passes * images / (cost.at_once * cost.step.scored_per_second)
