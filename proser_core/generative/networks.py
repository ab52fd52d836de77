"""Every network of a method's own by its name."""

from typing import Any

from proser_core.generative.own_network import OwnNetwork

OWN_NETWORKS: dict[str, OwnNetwork[Any]] = {}
"""A network comes after those that it needs."""
