"""Two protocols on digits, and a method with a network of its own."""

import pytest
from own_networks import BLUR, DIVERGES, METHOD, NEAREST
from pipeline_runs import RunFolder
from reproductions import DATA

from pipelines.reproduction import protocols
from pipelines.reproduction.protocols import Column, Protocol, Study
from proser_core.baselines import METHODS
from proser_core.generative.networks import OWN_NETWORKS


@pytest.fixture(scope="module")
def folder(run_folder: RunFolder, patch: pytest.MonkeyPatch) -> RunFolder:
    """Two protocols on digits that read from one training."""
    columns = {name: Column(name, "digits", f"test/{name}") for name in ("unknown_3/auroc", "closed_set_accuracy")}
    patch.setitem(protocols.STUDIES, "digits", Study("Digits", DATA, (0, 1)))
    patch.setitem(protocols.PROTOCOLS, "few", Protocol("Five digits known", "here", (columns["unknown_3/auroc"],)))
    patch.setitem(protocols.PROTOCOLS, "closed", Protocol("Accuracy", "here", (columns["closed_set_accuracy"],)))
    return run_folder


@pytest.fixture
def own_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method with a network of its own, which needs another one."""
    monkeypatch.setitem(METHODS, METHOD.name, METHOD)
    for network in (BLUR, NEAREST, DIVERGES):
        monkeypatch.setitem(OWN_NETWORKS, network.name, network)
