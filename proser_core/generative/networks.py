"""Every network of a method's own by its name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from proser_core.errors import CheckpointError, ConfigError
from proser_core.generative import c2ae, gfrosr
from proser_core.generative.autoencoder import AUTOENCODER
from proser_core.generative.autoencoding_gan import AUTOENCODING_GAN
from proser_core.generative.conditional_gan import CONDITIONAL_GAN
from proser_core.generative.crosr import DHRNET, LADDERNET
from proser_core.generative.g_openmax import G_OPENMAX
from proser_core.generative.g_openmax_interpolation import G_OPENMAX_INTERPOLATION
from proser_core.generative.one_vs_rest import ONE_VS_REST
from proser_core.generative.osrci import OSRCI
from proser_core.generative.own_network import OwnNetwork, Schedule, TaskShape
from proser_core.naming import Named
from proser_core.serialization import from_json

OWN_NETWORKS: dict[str, OwnNetwork[Any]] = Named(
    "network",
    (
        ONE_VS_REST,
        CONDITIONAL_GAN,
        G_OPENMAX,
        AUTOENCODING_GAN,
        G_OPENMAX_INTERPOLATION,
        OSRCI,
        c2ae.CLASSIFIER,
        c2ae.C2AE,
        LADDERNET,
        DHRNET,
        AUTOENCODER,
        gfrosr.GFROSR,
        gfrosr.SIX_CHANNELS,
        gfrosr.ROTATION,
        gfrosr.THREE_CHANNELS,
    ),
)
"""A network comes after those that it needs. One that is added here can be trained, saved, loaded and served."""


def restored(name: str, schedule: Mapping[str, Any], shape: TaskShape, path: Path) -> nn.Module:
    """A trained network from its weights, as `schedule` sized it, in evaluation mode. Raises CheckpointError for one
    that is not known here, for a schedule that is not its own, and for weights that do not fit."""
    if name not in OWN_NETWORKS:
        raise CheckpointError(
            f"{path} has the weights of a network {name!r}, and there is {', '.join(OWN_NETWORKS)}; import the module "
            "that adds it to OWN_NETWORKS before the classifier is loaded"
        )
    network = OWN_NETWORKS[name]
    kind: type[Schedule] = type(network.schedules["quick"])
    try:
        own = from_json(kind, dict(schedule))
    except ConfigError as error:
        raise CheckpointError(
            f"{path} has the weights of a network {name!r} whose schedule cannot be read ({error}); load it with the "
            "version of proser that saved it, or fetch it again"
        ) from error
    return network.restored(shape, own, path)
