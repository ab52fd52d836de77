"""Published numbers and methods go by the same names."""

from pipelines.reproduction.protocols import PROTOCOLS
from pipelines.reproduction.published import PAPER, QUOTED, quoted
from proser_core.baselines import METHODS
from proser_core.generative.networks import OWN_NETWORKS

NEWER = {"CVAECapOSR", "DIAS", "DIAS, 800 epochs", "ARPL+CS", "ARPL+CS, 800 epochs", "CSSR", "RCSSR"}
"""Of later papers, and not in the tables of PROSER's."""


def test_every_method_of_the_papers_tables_has_a_row_to_be_measured_in() -> None:
    columns = [column for protocol in PROTOCOLS.values() for column in protocol.columns]
    published = [each for column in columns for family in ("neal", "osrci", "") for each in quoted(column, family)]
    names = {each.method for each in published}
    assert {each.method for each in published if QUOTED in each.source or each.source == PAPER} <= names - NEWER
    assert names - NEWER <= METHODS.keys()


def test_a_network_of_a_methods_own_is_scored_by_some_row_or_needed_by_one_that_is() -> None:
    scored = {method.network for method in METHODS.values()} - {""}
    assert scored == {name for name, network in OWN_NETWORKS.items() if network.scores_images}
    needed = {name for network in OWN_NETWORKS.values() for name in network.needs}
    assert OWN_NETWORKS.keys() - scored <= needed
