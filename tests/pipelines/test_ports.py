"""Ports that a server may listen on."""

import pytest

from pipelines.ports import check_port
from proser_core.errors import ConfigError


def test_an_address_of_another_machine_is_not_called_a_port_in_use() -> None:
    with pytest.raises(ConfigError, match=r"--host got 203\.0\.113\.1, which is no address of this machine"):
        check_port(8000, "203.0.113.1")  # reserved for documentation
