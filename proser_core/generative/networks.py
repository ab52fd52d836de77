"""Every network of a method's own by its name."""

from typing import Any

from proser_core.generative.autoencoder import AUTOENCODER
from proser_core.generative.c2ae import C2AE, CLASSIFIER
from proser_core.generative.gfrosr import GFROSR, GFROSR_PLAIN, GFROSR_RECONSTRUCTION, GFROSR_ROTATION
from proser_core.generative.own_network import OwnNetwork

OWN_NETWORKS: dict[str, OwnNetwork[Any]] = {
    network.name: network
    for network in (CLASSIFIER, C2AE, AUTOENCODER, GFROSR, GFROSR_RECONSTRUCTION, GFROSR_ROTATION, GFROSR_PLAIN)
}
"""A network comes after those that it needs."""
