"""Where a network of another library can be cut: its own stages, found by what they do to an image."""

import copy
import itertools
import random
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from proser_core.config import SplitPoint
from proser_core.errors import ConfigError, first_line
from proser_core.networks.backbone import IMAGE, Backbone, average_pool
from proser_core.processor import torch_restored

WHOLE = "model"
"""The only stage of a network that is not its modules one after the other."""
TAILS: tuple[Mapping[str, type[nn.Module]], ...] = (
    {},
    {"functional_flat": nn.Flatten},
    {"functional_pool": average_pool},  # type: ignore[dict-item]
    {"functional_relu": nn.ReLU, "functional_pool": average_pool},  # type: ignore[dict-item]
)
"""What a `forward` may do by functions between the features and the head, under names that hardly any child has."""


class Point(NamedTuple):
    """A module after which a network can be cut: its place, the side of what it gives, whether it has a convolution or
    a linear layer."""

    place: str
    side: int
    is_block: bool


def staged(
    net: nn.Module, name: str, image_size: int, native_size: int, split: SplitPoint, *, is_own: bool = False
) -> Backbone:
    """A network without classifier as a Backbone, cut by its own stages.

    A stage is what has one resolution; middle is before the last stage, early one stage before that, late before the
    last block. A network that is more than its modules one after the other, such as a vision transformer, has none:
    early mixes images, middle and late embeddings. `native_size` is that of the images that the library trained it on.
    A user's own network, `is_own`, is compared with its modules in training too. Of a library's a cut drops what it
    does by functions in training alone: in a few of timm's a dropout before the classifier.
    Raises ConfigError where the network does not take such images, or gives no embedding.
    """
    images = torch.randn(1, 3, image_size, image_size, generator=torch.Generator().manual_seed(0))
    images = images.to(next((each.device for each in net.parameters()), images.device))
    was_training = net.training
    net.eval()
    try:
        with torch.no_grad():  # not inference_mode, in which lazy layers would make parameters that take no gradient
            embedding = net(images.clone())  # which it may change in place
            if not isinstance(embedding, Tensor) or embedding.ndim != 2:
                gives = tuple(embedding.shape) if isinstance(embedding, Tensor) else f"a {type(embedding).__name__}"
                raise ConfigError(f"{name} gives {gives} for an image, no embedding; choose another backbone")
            stages = _sequence(net, images, embedding, in_training=is_own)
            splits = _splits(list(_points(stages, images.clone()))) if stages is not None else None
    except ConfigError:
        raise
    except Exception as error:  # whatever the network's own code raises
        remedy = "choose another backbone"
        if image_size != native_size:
            remedy = f"set data.image_size to {native_size}, the size that it was trained on"
        raise ConfigError(
            f"{name} does not take images of {image_size} pixels ({first_line(error)}); {remedy}"
        ) from error
    finally:
        net.train(was_training)
    if stages is None or splits is None:
        whole: dict[SplitPoint, str] = {"early": IMAGE, "middle": WHOLE, "late": WHOLE}
        return Backbone({WHOLE: net}, embedding.shape[1], whole, split, is_own=False)
    return Backbone(stages._modules, embedding.shape[1], splits, split, is_own=False)


def _sequence(net: nn.Module, images: Tensor, embedding: Tensor, *, in_training: bool) -> nn.Sequential | None:
    """The network's modules one after the other, where that is the network, `in_training` too if asked; else None."""
    # not `named_children`, which leaves out a module's second use
    children = [(name, child) for name, child in net._modules.items() if child is not None]
    if not children or (in_training and type(net).train is not nn.Module.train):
        return None
    *body, head = children
    for tail in TAILS:
        made = [(name, make()) for name, make in tail.items()]
        stages = nn.Sequential(OrderedDict([*body, *made, head])).eval()
        try:
            same = _near(stages(images.clone()), embedding)
            if same and in_training:
                same = _near(_given_in_training(stages, images), _given_in_training(net, images))
        except Exception:  # the shapes do not fit, or a module cannot be called
            continue
        if same and len(list(stages.parameters())) == len(list(net.parameters())):
            return stages.train(net.training)
    return None


def _near(given: Tensor, expected: Tensor) -> bool:
    """Whether both are the same but for rounding; shapes that differ may be broadcast."""
    near = 1e-5 * float(expected.abs().max())  # fresh weights may give embeddings of 1e-13
    return given.shape == expected.shape and torch.allclose(given, expected, rtol=1e-4, atol=near)


def _given_in_training(net: nn.Module, images: Tensor) -> Tensor:
    """What a copy of the network gives in training, with the same draws each time."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch_restored(images.device):
        for seed in (torch.manual_seed, random.seed, np.random.seed):
            seed(0)
        try:
            return copy.deepcopy(net).train()(images.repeat(2, 1, 1, 1))  # BatchNorm refuses one image of one position
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def _points(stages: nn.Sequential, features: Tensor, above: str = "") -> Iterator[Point]:
    """The points of a sequence on the way of an image through it, as long as there are positions."""
    for name, child in stages._modules.items():
        place = f"{above}{name}"
        if _is_list_of_blocks(child, is_top=not above):
            yield from _points(child, features, f"{place}.")  # type: ignore[arg-type]
        features = child(features)
        if features.ndim != 4:
            return
        if not _is_list_of_blocks(child, is_top=not above):
            is_block = any(isinstance(module, nn.Conv2d | nn.Linear) for module in child.modules())
            yield Point(place, features.shape[2], is_block)  # of [B, C, H, W] and of [B, H, W, C]


def _is_list_of_blocks(module: nn.Module, *, is_top: bool) -> bool:
    """Whether it only runs its modules in their order, and these are blocks; one of convolution, norm and activation is
    a block itself."""
    if type(module).forward is not nn.Sequential.forward or not len(list(module.children())):
        return False
    return is_top or all(list(child.children()) for child in module.children())


def _splits(points: list[Point]) -> dict[SplitPoint, str] | None:
    """The places of the three split points; None where the resolution does not fall."""
    blocks = [number for number, point in enumerate(points) if point.is_block]
    points = points[: blocks[-1] + 1] if blocks else []  # what follows has no weights to speak of
    sides = [point.side for point in points]
    stages = [len(list(run)) for _, run in itertools.groupby(sides)]
    if len(stages) < 2:
        return None
    middle = sum(stages[:-1]) - 1
    early = sum(stages[:-2]) - 1 if len(stages) > 2 else middle
    late = max(middle, len(points) - 2)
    return {"early": points[early].place, "middle": points[middle].place, "late": points[late].place}
