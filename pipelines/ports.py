"""Ports that a server of this machine listens on."""

import socket

from proser_core.errors import ConfigError


def check_port(port: int, host: str = "127.0.0.1") -> None:
    """Raises ConfigError where another program listens there, or the machine has no such address."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigError(
                f"port {port} of {host} cannot be had ({error.strerror}); give a free one with --port"
            ) from None
