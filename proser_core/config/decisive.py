"""The part of a recipe that decides a result, which the keys of finished work hold."""

from typing import Any

from proser_core.config.network import NetworkConfig
from proser_core.config.recipe import Recipe
from proser_core.digests import sha256_of
from proser_core.errors import CheckpointError
from proser_core.serialization import to_json


def decisive_network(network: NetworkConfig) -> dict[str, Any]:
    """The network as plain values, with the SHA-256 of its weights file instead of the path.

    Raises CheckpointError for a file that cannot be read.
    """
    try:
        content = sha256_of(network.weights_file) if network.weights_file else ""
    except OSError as error:
        raise CheckpointError(
            f"network.weights_file {network.weights_file} cannot be read: {error.strerror}"
        ) from error
    return {**to_json(network), "weights_file": content}


def decisive_fields(recipe: Recipe) -> dict[str, Any]:
    """The recipe as plain values, without names and without fields that only say where it runs."""
    values = {**to_json(recipe), "network": decisive_network(recipe.network)}
    cluster = values.pop("cluster")
    for name in ("name", "model_name"):
        del values[name]
    del values["data"]["download"]
    workers = [cluster[name] for name in ("num_workers", "pretrain_workers", "cpus_per_worker")]
    return {**values, "workers": workers, "gpu": recipe.cluster.uses_gpu}
