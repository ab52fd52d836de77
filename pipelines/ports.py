"""TCP ports: free ones of this machine, and checks that one is free here, or answers on another."""

import errno
import socket
from contextlib import ExitStack

from proser_core.errors import ConfigError

CONNECT_TIMEOUT_S = 5.0


def check_port_number(port: int) -> None:
    """Raises ConfigError for a number that is no port."""
    if not 1 <= port <= 65535:
        raise ConfigError(f"--port got {port}; need 1 to 65535")


def check_port(port: int, host: str = "127.0.0.1") -> None:
    """Raises ConfigError where another program listens there, or the machine has no such address or port."""
    check_port_number(port)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except TypeError as error:  # letters that no name of a host has
            raise _not_here(host, error) from None
        except OSError as error:
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                raise _not_here(host, error.strerror) from None
            raise ConfigError(
                f"port {port} of {host} is not available ({error.strerror}); give a free one with --port"
            ) from None


def free_ports(count: int) -> list[int]:
    """Different ports of this machine that nothing listens at."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


def _not_here(host: str, reason: object) -> ConfigError:
    return ConfigError(
        f"--host got {host}, which is no address of this machine ({reason}); give one, such as 127.0.0.1"
    )


def check_listens(host: str, port: int) -> None:
    """Raises OSError where nothing listens there."""
    socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S).close()
