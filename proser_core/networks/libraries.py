"""Backbones by the names of torchvision and timm, such as torchvision:convnext_tiny, and what they were trained for.

Both libraries take seconds to load, and timm is an extra: each is loaded where one of its names is used.
"""

import difflib
import importlib.util
import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from proser_core.config import NetworkConfig
from proser_core.config.network import DEFAULT_WEIGHTS, NO_WEIGHTS
from proser_core.errors import ConfigError, MissingPackageError, first_line
from proser_core.naming import look_up
from proser_core.networks.weights import save_weights
from proser_core.store.files import atomic_path, flush


@dataclass(frozen=True)
class Pretrained:
    """Weights by the name that they have in their library, and what they were trained on: pixels square, and mean and
    standard deviation of each channel, six numbers in 0..1; and where they are downloaded from, if the library says."""

    name: str
    image_size: int
    normalisation: tuple[float, ...]
    url: str


class Headless(NamedTuple):
    """A network without its classifier, images to embeddings, and the names of the modules that were the classifier."""

    net: nn.Module
    heads: tuple[str, ...]


class ModelLibrary(Protocol):
    """Classifiers by name. Each method raises ConfigError for a name that the library lacks or cannot be used."""

    def about(self, model: str, weights: str) -> Pretrained:
        """What the library says of `weights`; of its own choice for DEFAULT and none."""

    def build(self, model: str, weights: str | None) -> Headless:
        """The network. With `weights` they are fetched, which raises whatever the library does."""


class Torchvision:
    """torchvision.models, the classifiers."""

    def about(self, model: str, weights: str) -> Pretrained:
        """What torchvision says of `weights`."""
        from torchvision import models

        names = models.list_models(module=models)
        if model not in names:
            raise ConfigError(_no_such("torchvision", model, names))
        choices = models.get_model_weights(model)
        members = {DEFAULT_WEIGHTS: choices.DEFAULT, NO_WEIGHTS: choices.DEFAULT, **choices.__members__}
        chosen = look_up(f"weights of torchvision:{model}", weights, members)
        preset = chosen.transforms()
        return Pretrained(chosen.name, preset.crop_size[0], (*preset.mean, *preset.std), chosen.url)

    def build(self, model: str, weights: str | None) -> Headless:
        """The network without its last linear layer, which classifies."""
        from torchvision import models

        with warnings.catch_warnings(action="ignore"):  # some announce other first weights
            net: nn.Module = models.get_model(model, weights=weights)
        linear = [name for name, module in net.named_modules() if isinstance(module, nn.Linear)]
        if not linear or hasattr(net, "aux_logits"):
            why = "classifies in more than one place" if linear else "has no linear classifier"
            raise ConfigError(f"torchvision:{model} {why}, so that it gives no embedding; choose another backbone")
        net.set_submodule(linear[-1], nn.Identity())
        return Headless(net, (linear[-1],))


class Timm:
    """timm's models."""

    def about(self, model: str, weights: str) -> Pretrained:
        """What timm says of `weights`, a tag such as ra_in1k."""
        timm = _timm()
        if not timm.is_model(model):
            raise ConfigError(_no_such("timm", model, timm.list_models()))
        name, _, tag = model.partition(".")
        if tag:  # timm itself takes such names
            raise ConfigError(f"timm:{model} names weights too; give timm:{name} and --network.weights {tag}")
        tags = [name.partition(".")[2] for name in timm.list_pretrained(f"{model}.*") + timm.list_pretrained(model)]
        found = timm.get_pretrained_cfg(model)
        if weights not in (DEFAULT_WEIGHTS, NO_WEIGHTS):
            look_up(f"weights of timm:{model}", weights, dict.fromkeys(filter(None, tags)))
            found = timm.get_pretrained_cfg(f"{model}.{weights}")
        url = f"https://huggingface.co/{found.hf_hub_id}" if found.hf_hub_id else found.url or ""
        return Pretrained(found.tag or model, found.input_size[-1], (*found.mean, *found.std), url)

    def build(self, model: str, weights: str | None) -> Headless:
        """The network without its classifier."""
        name = f"{model}.{weights}" if weights and weights != model else model
        net = _timm().create_model(name, pretrained=weights is not None, num_classes=0)
        heads = net.pretrained_cfg["classifier"] or ()
        return Headless(net, (heads,) if isinstance(heads, str) else tuple(heads))


LIBRARIES: Mapping[str, ModelLibrary] = {"torchvision": Torchvision(), "timm": Timm()}
"""Libraries by what stands before the colon in the name of a backbone."""


def packages_of(network: NetworkConfig) -> tuple[str, ...]:
    """Packages that the backbone needs beside those that every backbone does."""
    return ("timm",) if network.backbone.startswith("timm:") else ()


def _parts(network: NetworkConfig) -> tuple[ModelLibrary, str]:
    """The library, and the model's name in it."""
    library, _, model = network.backbone.partition(":")
    return look_up("library of backbones", library, LIBRARIES), model


def pretrained_of(network: NetworkConfig) -> Pretrained:
    """What the library says of the backbone's weights. Raises ConfigError for names that it lacks."""
    library, model = _parts(network)
    return library.about(model, network.weights)


def build(network: NetworkConfig) -> Headless:
    """The network with fresh weights. Raises ConfigError as `pretrained_of` does."""
    library, model = _parts(network)
    library.about(model, network.weights)
    return library.build(model, None)


def fetch(network: NetworkConfig) -> Path:
    """The backbone's weights as a file of this machine: the one that is there, or downloaded now.

    Raises ConfigError for names that the library lacks, and where nothing can be downloaded.
    """
    (library, model), about = _parts(network), pretrained_of(network)
    weights = about.name
    path = Path(torch.hub.get_dir()) / "proser" / f"{network.backbone.replace(':', '-')}-{weights}.safetensors"
    if path.is_file():
        return path
    library.build(model, None)  # refuses what is none before anything is downloaded
    try:
        net = library.build(model, weights).net
    except Exception as error:  # the libraries' own, of urllib, of httpx and of the Hugging Face Hub
        raise ConfigError(
            f"the weights {weights} of {network.backbone} could not be downloaded ({first_line(error)}); fetch "
            f"{about.url or 'them'} elsewhere and give --network.weights-file FILE, or train without them: the recipe "
            "folder, or --network.weights none"
        ) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        save_weights(net, temporary)
        flush(temporary)
    return path


def names_in_libraries(model: str) -> list[str]:
    """The backbones torchvision:NAME and timm:NAME of that name; of timm only where it is installed."""
    from torchvision import models

    found = [f"torchvision:{model}"] if model in models.list_models(module=models) else []
    is_of_timm = "." not in model and importlib.util.find_spec("timm") and _timm().is_model(model)
    return found + ([f"timm:{model}"] if is_of_timm else [])


def _timm() -> Any:
    if importlib.util.find_spec("timm") is None:
        raise MissingPackageError("backbones of timm need the package timm: pip install timm")
    import timm

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it would print every attempt to download
    return timm


def _no_such(library: str, model: str, names: list[str]) -> str:
    near = difflib.get_close_matches(model, names, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"{library}'s own list_models() has all names"
    return f"{library} has no model {model!r}; {hint}"
