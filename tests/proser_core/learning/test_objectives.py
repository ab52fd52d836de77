"""ProserObjective against a twin that handles one image after another."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tasks import CPU, SIZE, finetune_config, tiny_closed_set_net, tiny_net
from torch import nn

from proser_core.learning.losses import augmented_logits
from proser_core.learning.mixup import MixDraw
from proser_core.learning.objectives import CrossEntropyObjective, ProserObjective, frozen_running_statistics


def probability(logits: list[float], index: int) -> float:
    return math.exp(logits[index]) / sum(math.exp(value) for value in logits)


def textbook_terms(net, images, targets, draw, mixup, *, batch_use="half"):
    """l1's two terms and l2 of one batch; the net is in evaluation mode, so images do not touch each other."""

    def augmented(logits) -> list[float]:
        return [*logits.known[0].tolist(), max(logits.dummies[0].tolist())]

    half = len(images) // 2
    clean = range(half) if batch_use == "half" else range(len(images))
    to_mix = range(half, len(images)) if batch_use == "half" else range(len(images))
    closed_set, placeholder, mixture = [], [], []
    for i in clean:
        row, target = augmented(net(images[i : i + 1])), int(targets[i])
        closed_set.append(-math.log(probability(row, target)))
        del row[target]
        placeholder.append(-math.log(probability(row, len(row) - 1)))
    lam = float(draw.mix_lambda)
    for position, i in enumerate(to_mix):
        j = to_mix[int(draw.partners[position])]
        if targets[i] == targets[j]:
            continue
        x_i, x_j = images[i : i + 1], images[j : j + 1]
        if mixup == "vanilla":
            row = augmented(net(lam * x_i + (1 - lam) * x_j))
        else:
            row = augmented(net.logits(lam * net.hidden(x_i) + (1 - lam) * net.hidden(x_j)))
        mixture.append(-math.log(probability(row, len(row) - 1)))
    return np.mean(closed_set), np.mean(placeholder), np.mean(mixture) if mixture else 0.0


def random_batch(batch: int, num_known: int, seed: int, *, one_class: bool = False, batch_use: str = "half"):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(batch, 3, SIZE, SIZE, generator=generator)
    targets = torch.randint(1 if one_class else num_known, (batch,), generator=generator)
    mixed = batch // 2 if batch_use == "half" else batch
    draw = MixDraw(torch.randperm(mixed, generator=generator), torch.rand((), generator=generator))
    return images, targets, draw


@settings(max_examples=60)
@given(
    batch=st.integers(1, 5).map(lambda half: 2 * half),
    num_known=st.integers(2, 5),
    num_dummies=st.integers(1, 4),
    beta=st.sampled_from([0.0, 1.0, 0.3]),
    gamma=st.sampled_from([0.0, 0.1, 10.0]),
    mixup=st.sampled_from(["manifold", "vanilla"]),
    sharing=st.sampled_from(["shared", "separate"]),
    batch_use=st.sampled_from(["half", "all"]),
    one_class=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_the_loss_is_l1_plus_gamma_times_l2(
    batch, num_known, num_dummies, beta, gamma, mixup, sharing, batch_use, one_class, seed
):
    net = tiny_net(num_known, num_dummies, seed=seed)
    config = finetune_config(
        batch_size=batch,
        beta=beta,
        gamma=gamma,
        mixup=mixup,
        mixture_batch_norm=sharing,
        num_dummies=num_dummies,
        batch_use=batch_use,
    )
    images, targets, draw = random_batch(batch, num_known, seed, one_class=one_class, batch_use=batch_use)
    objective = ProserObjective(net, config, seed=0).eval()
    with torch.no_grad():
        terms = objective(images, targets, targets, draw)
        closed_set, placeholder, mixture = textbook_terms(net, images, targets, draw, mixup, batch_use=batch_use)
    assert float(terms.total) == pytest.approx(closed_set + beta * placeholder + gamma * mixture, rel=1e-4, abs=1e-5)
    expectations = {"closed_set": closed_set, "placeholder": placeholder, "mixture": mixture}
    if batch_use == "all" and gamma == 0:
        del expectations["mixture"]
        assert "loss/mixture" not in terms.sums
    for name, expected in expectations.items():
        total, count = terms.sums[f"loss/{name}"].tolist()
        assert total / max(count, 1) == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("mixup", ["manifold", "vanilla"])
@pytest.mark.parametrize("batch", [2, 8])
def test_a_half_without_a_mixed_pair_adds_nothing_and_leaves_the_gradient_finite(mixup, batch):
    images, targets, draw = random_batch(batch, 3, 0, one_class=True)
    results = []
    for gamma in (0.0, 10.0):
        objective = ProserObjective(tiny_net(), finetune_config(batch_size=batch, gamma=gamma, mixup=mixup), 0).train()
        terms = objective(images, targets, targets, draw)
        terms.total.backward()
        gradients = [parameter.grad for parameter in objective.parameters()]
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert terms.sums["loss/mixture"].tolist() == [0.0, 0.0]
        results.append((terms.total.detach(), gradients))
    assert torch.equal(results[0][0], results[1][0])
    assert all(torch.equal(a, b) for a, b in zip(results[0][1], results[1][1], strict=True))


def running_statistics(module: nn.Module) -> list[torch.Tensor]:
    norms = [norm for norm in module.modules() if isinstance(norm, nn.BatchNorm2d)]
    return [value.clone() for norm in norms for value in (norm.running_mean, norm.running_var)]


def assert_statistics(expected: nn.Module, batch_use: str, **choices) -> None:
    """After a step of the objective, the running statistics are those of `expected`."""
    images, targets, draw = random_batch(8, 3, 2, batch_use=batch_use)
    net = tiny_net().train()
    objective = ProserObjective(net, finetune_config(batch_use=batch_use, **choices), 0).train()
    objective(images, targets, targets, draw).total.backward()
    torch.testing.assert_close(running_statistics(net), running_statistics(expected))
    assert [norm.momentum for norm in net.modules() if isinstance(norm, nn.BatchNorm2d)] == [0.1, 0.1]


@pytest.mark.parametrize("batch_use", ["half", "all"])
def test_shared_batch_norm_lets_mixtures_into_the_running_statistics(batch_use):
    images, _, draw = random_batch(8, 3, 2, batch_use=batch_use)
    twin = tiny_net().train()
    hidden = twin.hidden(images)
    clean, to_mix = (hidden[:4], hidden[4:]) if batch_use == "half" else (hidden, hidden)
    lam = draw.mix_lambda
    twin.logits(torch.cat([clean, lam * to_mix + (1 - lam) * to_mix[draw.partners]]))
    assert_statistics(twin, batch_use, mixture_batch_norm="shared")


@pytest.mark.parametrize("mixup", ["manifold", "vanilla"])
@pytest.mark.parametrize("batch_use", ["half", "all"])
def test_separate_batch_norm_keeps_mixtures_out_of_the_running_statistics(mixup, batch_use):
    """Before the split point, manifold mixup has no mixtures yet."""
    images, _, _ = random_batch(8, 3, 2, batch_use=batch_use)
    clean = slice(4 if batch_use == "half" else 8)
    twin = tiny_net().train()
    if mixup == "manifold":
        twin.logits(twin.hidden(images)[clean])
    else:
        twin(images[clean])
    assert_statistics(twin, batch_use, mixup=mixup, mixture_batch_norm="separate")


def test_every_kind_of_batch_norm_keeps_its_running_statistics():
    norms = nn.ModuleList([nn.BatchNorm1d(2), nn.BatchNorm2d(2, momentum=0.01), nn.BatchNorm2d(2, momentum=None)])
    with frozen_running_statistics(norms):
        norms[0](torch.randn(4, 2))
        norms[1](torch.randn(4, 2, 1, 1))
    assert not any(norm.running_mean.any() for norm in norms)
    assert [norm.momentum for norm in norms] == [0.1, 0.01, None]


@pytest.mark.parametrize("mixup", ["manifold", "vanilla"])
@pytest.mark.parametrize("sharing", ["shared", "separate"])
def test_whole_batches_without_the_mixture_loss_leave_the_mixtures_out(mixup, sharing):
    twin = tiny_net().train()
    twin(random_batch(8, 3, 2, batch_use="all")[0])
    assert_statistics(twin, "all", gamma=0.0, mixup=mixup, mixture_batch_norm=sharing)


def test_separate_batch_norm_normalises_clean_images_without_the_mixtures():
    images, targets, draw = random_batch(8, 3, 2)
    net = tiny_net().train()
    augmented = augmented_logits(net.logits(net.hidden(images)[:4]))
    expected = nn.functional.cross_entropy(augmented, targets[:4], reduction="sum")
    for sharing, is_expected in (("separate", True), ("shared", False)):
        objective = ProserObjective(tiny_net(), finetune_config(mixture_batch_norm=sharing), 0).train()
        found = objective(images, targets, targets, draw).sums["loss/closed_set"][0]
        assert torch.isclose(found, expected) == is_expected


@pytest.mark.parametrize(("batch_use", "mixed"), [("half", 4), ("all", 8)])
def test_the_draw_is_for_the_second_half_of_the_global_batch_or_for_all_of_it(batch_use, mixed):
    objective = ProserObjective(tiny_net(), finetune_config(batch_use=batch_use), seed=3)
    draws, again = (objective.draws(1, 6, 8, CPU) for _ in range(2))
    assert [sorted(partners) for partners in draws.partners.tolist()] == [list(range(mixed))] * 6
    assert torch.equal(draws.partners, again.partners)
    assert torch.equal(draws.mix_lambda, again.mix_lambda)
    assert len(set(draws.mix_lambda.tolist())) == 6


def test_reported_counts_are_of_the_clean_half():
    images, targets, draw = random_batch(8, 3, 2)
    net = tiny_net().eval()
    sums = ProserObjective(net, finetune_config(), 0).eval()(images, targets, targets, draw).sums
    rows = augmented_logits(net(images[:4])).tolist()
    wins = sum(row[-1] > max(row[:-1]) for row in rows)
    right = sum(row.index(max(row)) == target for row, target in zip(rows, targets.tolist(), strict=False))
    assert sums["train/dummy_win_rate"].tolist() == [wins, 4]
    assert sums["train/accuracy"].tolist() == [right, 4]


@settings(max_examples=20)
@given(st.integers(1, 6), st.integers(2, 5), st.floats(0, 0.99), st.integers(0, 10**6))
def test_smoothing_gives_a_share_of_the_target_to_all_classes_alike(batch, num_known, smoothing, seed):
    images, targets, _ = random_batch(2 * batch, num_known, seed)
    net = tiny_closed_set_net(num_known, seed=seed).eval()
    terms = CrossEntropyObjective(net, smoothing).eval()(images, targets, targets, None)
    losses, right = [], 0
    for i, target in enumerate(targets.tolist()):
        row = net(images[i : i + 1])[0].tolist()
        right += row.index(max(row)) == target
        wanted = [smoothing / num_known + (1 - smoothing) * (k == target) for k in range(num_known)]
        losses.append(-sum(share * math.log(probability(row, k)) for k, share in enumerate(wanted)))
    assert float(terms.total.detach()) == pytest.approx(np.mean(losses), rel=1e-4)
    assert terms.sums["train/accuracy"].tolist() == [right, 2 * batch]


def test_ratios_of_mixtures_are_drawn_with_the_alpha_of_the_recipe() -> None:
    peaked, flat = (
        ProserObjective(tiny_net(), finetune_config(alpha=alpha), 0).draws(0, 400, 8, CPU).mix_lambda
        for alpha in (20.0, 0.2)
    )
    assert float(peaked.std()) == pytest.approx(0.5 / 41**0.5, rel=0.15)  # of Beta(alpha, alpha)
    assert float(flat.std()) == pytest.approx(0.5 / 1.4**0.5, rel=0.15)
