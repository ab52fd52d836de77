"""Logits of every image that is ever scored, computed once: calibration and metrics need the network no more."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from proser_core.data.image_sets import ImageSource
from proser_core.data.normalisation import Normalisation, evaluation_batches
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import TrainingError
from proser_core.networks.nets import ClassLogits
from proser_core.processor import ieee_convolutions, usable_device
from proser_core.recognition.logit_tables import ARRAYS, SCORED_PARTS, TRAIN, LogitTable


def compute_logits(
    net: nn.Module, images: np.ndarray | ImageSource, normalisation: Normalisation, device: torch.device | str
) -> LogitTable:
    """Logits of uint8[N, H, W, 3] images, or of streamed ones, in fp32 and evaluation mode, whatever training used. The
    network is moved to `device`, and stays there in evaluation mode. Raises DataError for an array that is
    neither these nor embeddings float32[N, d], ConfigError for a device that is not there."""
    device = usable_device(device)
    place(net, device)
    known, dummies = [], []
    with torch.inference_mode(), ieee_convolutions(device):
        for batch in evaluation_batches(images, normalisation, device):
            logits = net(batch)
            if not isinstance(logits, ClassLogits):
                logits = ClassLogits(logits, logits.new_empty(len(logits), 0))
            known.append(logits.known.float().cpu())
            dummies.append(logits.dummies.float().cpu())
    return LogitTable(*(torch.cat(parts).numpy()[: len(images)] for parts in (known, dummies)))


def task_logits(
    net: nn.Module, task: OpenSetTask, device: torch.device, *, with_training: bool
) -> dict[str, LogitTable]:
    """Logits of a task's images by part: SCORED_PARTS, and TRAIN if asked for.

    Raises TrainingError where one is not finite.
    """
    parts = (*SCORED_PARTS, TRAIN) if with_training else SCORED_PARTS
    normalisation = (task.mean, task.std)
    tables = {part: compute_logits(net, getattr(task, part).images, normalisation, device) for part in parts}
    check_finite(tables.values())
    return tables


def check_finite(tables: Iterable[LogitTable]) -> None:
    """Raises TrainingError for logits, or embeddings beside them, that are not finite."""
    arrays = (getattr(table, name) for table in tables for name in ARRAYS if hasattr(table, name))
    if not all(np.isfinite(array).all() for array in arrays):
        raise TrainingError(
            "the network gives embeddings or logits that are not finite, and they must stay finite; lower the learning "
            "rate, or check the weights that it began from"
        )


def place(net: nn.Module, device: torch.device) -> None:
    """Bring a network to the device and into evaluation mode, before inference mode is entered: nothing could be loaded
    into what moved in it. One that is there is left alone: the walk over its modules takes a tenth of the time of one
    image, and a training that goes on holds the memory of its weights, of which `to` would copy some all the same."""

    def is_there(each: Tensor) -> bool:
        return each.device.type == device.type and device.index in (None, each.device.index)

    def is_laid_out(each: Tensor) -> bool:
        return each.ndim != 4 or each.is_contiguous(memory_format=torch.channels_last)

    if not net.training and all(map(is_there, net.parameters())):
        return
    if not all(is_there(each) and is_laid_out(each) for each in (*net.parameters(), *net.buffers())):
        net.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    net.eval()
