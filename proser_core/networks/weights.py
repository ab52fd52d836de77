"""Weights in files: safetensors of ours, or a user's checkpoint."""

from collections.abc import Collection
from pathlib import Path

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from proser_core.errors import CheckpointError

FORMATS = "a .safetensors file, or tensors alone saved by torch.save"
"""What a file of weights may be."""


def save_weights(module: nn.Module, path: Path) -> None:
    """Parameters and buffers as safetensors. Raises OSError where the file cannot be written."""
    path.write_bytes(save({name: value.detach().cpu().contiguous() for name, value in module.state_dict().items()}))


def load_weights(module: nn.Module, path: Path) -> None:
    """Fill `module` from safetensors or a state_dict that torch can read with weights_only.

    Raises CheckpointError for a file that is neither, and names what does not fit.
    """
    state = {name.removeprefix("module."): value for name, value in read_weights(path).items()}
    fill(module, state, path, "Give a checkpoint of the same backbone and number of known classes")


def load_headless(net: nn.Module, path: Path, heads: Collection[str], remedy: str) -> None:
    """Fill a network without classifier from its library's own state_dict, in which the modules `heads` are left out.

    Files from before torch 0.4.1 lack BatchNorm's step counters, which play no part: they begin at 0.
    Raises CheckpointError as `load_weights` does.
    """
    if not path.exists():
        raise CheckpointError(f"--network.weights-file got {path}, which does not exist; need {FORMATS}. {remedy}")
    prefixes = tuple(f"{head}." for head in heads)
    state = {name: value for name, value in read_weights(path).items() if not name.startswith(prefixes)}
    counters = {k: v for k, v in net.state_dict().items() if k.endswith(".num_batches_tracked")}
    if not counters.keys() & state.keys():
        state |= counters
    fill(net, state, path, remedy)


def fill(module: nn.Module, state: dict[str, Tensor], path: Path, remedy: str) -> None:
    """Load a state_dict from the file `path`. Raises CheckpointError that names what does not fit, with the remedy."""
    expected = module.state_dict()
    problems = [f"{name} is missing" for name in expected if name not in state]
    problems += [f"{name} is not in the network" for name in state if name not in expected]
    problems += [
        f"{name} has shape {tuple(state[name].shape)}, the network {tuple(value.shape)}"
        for name, value in expected.items()
        if name in state and state[name].shape != value.shape
    ]
    if problems:
        more = f", and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise CheckpointError(f"{path} does not fit the network: {'; '.join(problems[:3])}{more}. {remedy}")
    module.load_state_dict(state)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Tensors by name. Raises CheckpointError for a file that holds none."""
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}; need {FORMATS}")
    try:
        if path.suffix == ".safetensors":
            return load(path.read_bytes())  # its own reader of files takes no path but UTF-8
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch's unpickler answers damaged files with a dozen kinds
        raise CheckpointError(  # not torch's own words, which advise to unpickle it
            f"{path} cannot be read as weights; need {FORMATS}"
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    is_named = isinstance(state, dict) and all(isinstance(name, str) for name in state)
    if not is_named or not all(isinstance(value, Tensor) for value in state.values()):
        raise CheckpointError(f"{path} holds no state_dict; need names with tensors, got {type(state).__name__}")
    return state
