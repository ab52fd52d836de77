"""Ports that a server may listen on."""

import re

import pytest

from pipelines.ports import check_port
from proser_core.errors import ConfigError


@pytest.mark.parametrize("host", ["203.0.113.1", "\u00fc..x"])  # reserved for documentation, and no name of a host
def test_an_address_of_another_machine_is_not_called_a_port_in_use(host: str) -> None:
    with pytest.raises(ConfigError, match=rf"--host got {re.escape(host)}, which is no address of this machine"):
        check_port(8000, host)
