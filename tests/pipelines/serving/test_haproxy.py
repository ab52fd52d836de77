"""HAProxy before the replicas: the settings that Ray reads, and none of them afterwards."""

import os
import stat
from pathlib import Path

import pytest

from pipelines.serving.haproxy import FILES, HARD_STOP, PORTS, SWITCH, haproxy_before_replicas


def test_each_server_has_files_and_ports_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    before = dict(os.environ)
    places, ports = [], []
    for _ in range(2):
        with haproxy_before_replicas(150.0):
            assert (os.environ[SWITCH], os.environ[HARD_STOP]) == ("1", "150")
            folder = Path(os.environ["RAY_SERVE_HAPROXY_CONFIG_FILE_LOC"]).parent
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700, "its socket takes commands"
            assert {Path(os.environ[name]) for name in FILES} <= {folder, *(folder / file for file in FILES.values())}
            places.append(folder)
            ports += [os.environ[name] for name in PORTS]
    assert dict(os.environ) == before
    assert len(set(places)) == 2
    assert not any(place.exists() for place in places)
    assert all(0 < int(port) < 65536 for port in ports)
    assert len(set(ports[:3])) == len(set(ports[3:])) == 3


def test_what_is_set_already_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    before = dict(os.environ)
    with haproxy_before_replicas(150.0):
        assert dict(os.environ) == before
    monkeypatch.setenv(SWITCH, "1")  # which is what it would be set to: the rest is not set yet
    monkeypatch.setenv(PORTS[0], "8500")
    with haproxy_before_replicas(150.0):
        assert (os.environ[SWITCH], os.environ[PORTS[0]]) == ("1", "8500")
        assert os.environ[HARD_STOP] == "150"
    assert (os.environ[SWITCH], os.environ[PORTS[0]]) == ("1", "8500")
    assert HARD_STOP not in os.environ
