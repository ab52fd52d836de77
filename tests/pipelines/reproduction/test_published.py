"""Published numbers: those that the papers print, beside their own class lists, under the names of methods."""

import pytest

from pipelines.reproduction.protocols import PERMUTED, PROTOCOLS, STUDIES
from pipelines.reproduction.published import PAPER, QUOTED, UNKNOWN, quoted
from proser_core.baselines import METHODS
from proser_core.data.splits.families import FAMILIES
from proser_core.generative.networks import OWN_NETWORKS


@pytest.mark.parametrize("family", [*FAMILIES, PERMUTED])
@pytest.mark.parametrize("name", ["svhn", "cifar10", "cifar+10", "cifar+50", "tiny-imagenet"])
def test_a_published_number_stands_beside_its_own_family_alone(name: str, family: str) -> None:
    found = quoted(PROTOCOLS[name].columns[0], family)
    assert {each.family for each in found} <= {family, UNKNOWN}
    assert [each.mean for each in found if each.method == "PROSER"] == [
        each.mean for each in found if "Zhou" in each.source
    ]
    assert any(each.method == "PROSER" for each in found)
    of_osrci = {"cifar+10": ["osrci"], "cifar+50": ["neal", "osrci"], "tiny-imagenet": [UNKNOWN]}.get(name, ["neal"])
    assert [each.family for each in found if each.method == "OSRCI"] == [
        each for each in of_osrci if each in (family, UNKNOWN)
    ]


def test_numbers_of_the_paper_are_those_that_it_prints() -> None:
    """A sample of each of its tables, typed a second time."""
    printed = {
        ("svhn", 0, "GFROSR"): 93.5,
        ("cifar+50", 0, "PROSER"): 95.3,
        ("tiny-imagenet", 0, "C2AE"): 58.1,
        ("closed-set", 2, "PROSER"): 52.1,
        ("mnist-outliers", 1, "OpenMax"): 72.0,
        ("cifar10-outliers", 3, "CROSR"): 74.9,
        ("cifar10-outliers", 0, "PROSER"): 84.9,
    }
    for (name, place, method), value in printed.items():
        column = PROTOCOLS[name].columns[place]
        found = [each.mean for each in quoted(column, STUDIES[column.study].family) if each.method == method]
        assert found == [value]


@pytest.mark.parametrize(
    ("name", "family", "method", "expected"),
    [
        ("svhn", "cssr", "RCSSR", [(97.8, "cssr")]),
        ("svhn", "neal", "RCSSR", []),
        ("cifar+10", "neal", "CSSR", [(96.3, UNKNOWN)]),  # the family has no lists there
        ("cifar10", "arpl", "ARPL+CS", [(91.0, "arpl")]),
        ("svhn", "arpl", "ARPL+CS", []),  # those who quote it disagree
        ("tiny-imagenet", "neal", "DIAS", [(73.1, "neal")]),
        ("tiny-imagenet", "neal", "DIAS, 800 epochs", [(75.6, "neal")]),
        ("cifar+10", "neal", "MSP", []),  # Neal's own is osrci
        ("cifar10", "neal", "G-OpenMax, interpolated", [(67.5, "neal")]),  # the form of Neal et al.
        ("cifar10", "neal", "G-OpenMax", []),
    ],
)
def test_later_methods_stand_beside_their_own_lists(
    name: str, family: str, method: str, expected: list[tuple[float, str]]
) -> None:
    found = quoted(PROTOCOLS[name].columns[0], family)
    assert [(each.mean, each.family) for each in found if each.method == method] == expected


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
