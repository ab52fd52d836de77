"""Fine-tunes that differ in beta and gamma alone: one after another, and stacked in one program (`torch.func`).

On a GPU both are captured as CUDA graphs.
"""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Table, comparison
from benchmarks.harness.timing import alternate, on_threads
from benchmarks.variants.our_step import OurStep
from benchmarks.variants.setups import PRECISIONS, arithmetic, one_batch, placeholder_net
from proser_core.config import FinetuneConfig
from proser_core.learning.losses import augmented_logits, closed_set_losses, placeholder_losses, unknown_losses
from proser_core.learning.mixup import MixDraw, mix, pair_weights
from proser_core.learning.objectives import LossTerms, ProserObjective
from proser_core.networks.nets import PlaceholderNet

IN_TURN, STACKED = "in turn", "stacked"
WEIGHTS = ((0.0, 0.1), (0.1, 0.1), (1.0, 0.1), (1.0, 1.0), (10.0, 0.01))
"""(beta, gamma) of the fine-tunes."""


def run(settings: Settings) -> Report:
    """A step of all the fine-tunes, in both precisions."""
    with on_threads(max(settings.thread_counts)):
        return Report([_compare(settings, precision) for precision in PRECISIONS])


def _compare(settings: Settings, precision: str) -> Table:
    bf16 = PRECISIONS[precision]
    batch, points = one_batch(settings), points_of(settings)
    apart = [step_of(ProserObjective(placeholder_net(settings), point, seed=0), settings, bf16) for point in points]
    stacked = step_of(StackedObjective([placeholder_net(settings) for _ in points], points), settings, bf16)

    def in_turn() -> None:
        for step in apart:
            step(batch)

    samples = alternate({IN_TURN: in_turn, STACKED: lambda: stacked(batch)}, settings, warmup=4)
    form = f"CUDA graphs on {torch.cuda.get_device_name()}" if settings.device == "cuda" else "eager"
    note = f"{form}; {settings.batch_size} images per fine-tune, the same for all."
    return comparison(f"A step of {len(points)} fine-tunes, {precision}", samples, IN_TURN, (note,))


def points_of(settings: Settings) -> list[FinetuneConfig]:
    """The paper's fine-tune with each pair of weights."""
    return [FinetuneConfig(batch_size=settings.batch_size, beta=beta, gamma=gamma) for beta, gamma in WEIGHTS]


def step_of(objective: nn.Module, settings: Settings, bf16: bool) -> OurStep:
    """Our step of one objective, as training takes it."""
    return OurStep(objective, arithmetic(settings, bf16)).as_trained()


class StackedObjective(nn.Module):
    """The objectives of T fine-tunes on the same images and draws, every weight and buffer [T, ...].

    As `ProserObjective` with half batches, the paper's losses and manifold mixup. What it differentiates is the
    sum over the fine-tunes, so that each weight gets the gradient of its own.
    """

    def __init__(self, nets: Sequence[PlaceholderNet], points: Sequence[FinetuneConfig]) -> None:
        super().__init__()
        self.draws = ProserObjective(nets[0], points[0], seed=0).draws
        weights, statistics = torch.func.stack_module_state([TwoHalves(net) for net in nets])
        self._names, self._statistics = list(weights), statistics
        self.weights = nn.ParameterList(weights.values())
        device = self.weights[0].device
        self._beta = torch.tensor([point.beta for point in points], device=device)
        self._gamma = torch.tensor([point.gamma for point in points], device=device)
        self._form = [copy.deepcopy(TwoHalves(nets[0])).to("meta").train()]  # in a list: no weights of this module

    def forward(self, images: Tensor, targets: Tensor, global_targets: Tensor, draw: MixDraw) -> LossTerms:
        """Sum of the losses of all fine-tunes, and that sum over the steps."""
        half = len(targets) // 2
        pairs = pair_weights(global_targets[half:], draw.partners)

        def loss(weights: dict[str, Tensor], statistics: dict[str, Tensor], beta: Tensor, gamma: Tensor) -> Tensor:
            augmented = torch.func.functional_call(self._form[0], (weights, statistics), (images, draw))
            clean, mixed = augmented[:half], augmented[half:]
            known = closed_set_losses(clean, targets[:half]) + beta * placeholder_losses(clean, targets[:half])
            return known.mean() + gamma * (unknown_losses(mixed) * pairs).sum() / pairs.sum().clamp(min=1.0)

        stacked = dict(zip(self._names, self.weights, strict=True))
        losses = torch.func.vmap(loss)(stacked, self._statistics, self._beta, self._gamma)
        total = losses.sum()
        return LossTerms(total, {"loss": torch.stack([total, total.new_ones(())]).detach()})


class TwoHalves(nn.Module):
    """Augmented logits [B, K+1] of the first half of a batch as it is, and of the second half mixed."""

    def __init__(self, net: PlaceholderNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: Tensor, draw: MixDraw) -> Tensor:
        hidden, half = self.net.hidden(images), len(images) // 2
        return augmented_logits(self.net.logits(torch.cat([hidden[:half], mix(hidden[half:], draw)])))
