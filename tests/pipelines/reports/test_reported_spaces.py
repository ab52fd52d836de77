"""Search spaces of a finished sweep: their points, what these are called, and what a paper says of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from sweep_tables import (
    ALPHAS,
    AT_15,
    COUNTS,
    GRID,
    PARTS,
    SPLIT,
    by_alpha,
    by_count,
    by_order,
    by_weights,
    losing,
    table,
    trade_off,
    trial,
)

from pipelines.reports.results_page import results_page
from pipelines.reports.spaces import lead_of, published_at, spaces_of, verdicts
from pipelines.reports.sweep_table import read_table, write_table
from tune_spaces import Claim, SpaceInfo, space_info


def test_equal_numbers_are_one_point_however_they_are_written() -> None:
    made = replace(
        trade_off(range(1)), rows=[trial({"beta": beta}, index, 0.5, "trade_off") for index, beta in ((0, 1), (1, 1.0))]
    )
    assert len(spaces_of(made)[0].points) == 1


def test_published_values_and_claims_are_kept_from_other_class_counts_and_other_data_sets() -> None:
    made = table("mixup_alpha", ALPHAS, range(1), by_alpha)
    fewer = replace(made, splits={0: replace(SPLIT, known=SPLIT.known[:10])})
    others = [fewer, *(replace(made, data_set=name) for name in ("tiny-imagenet", ""))]
    for each, expected in ((made, 0.63), *((other, None) for other in others)):
        (space,) = spaces_of(each)
        assert published_at(space, space.points[0], f"{AT_15}/macro_f1") == expected
        assert bool(verdicts(space)) == (each is made)
        assert bool(lead_of(space, f"{AT_15}/macro_f1")) == (each is made)
        assert ("paper" in results_page(each).lower()) == (each is made)


def test_a_claim_leads_with_a_point_of_the_space_and_with_no_control() -> None:
    made = table("num_dummies", COUNTS, range(1), by_count)
    control = "CE control, MaxLogit"
    for first, second in (({"num_dummies": 1}, control), (control, {"num_dummies": 5})):
        claims = tuple(
            Claim(says, pairs, source="here") for says, pairs in (("no pair", ()), ("one", ((first, second),)))
        )
        (space,) = spaces_of(replace(made, spaces={"num_dummies": SpaceInfo(claims=claims)}))
        found = lead_of(space, f"{AT_15}/macro_f1")
        assert (found is None) == (first == control)
        assert found is None or (found[0].params["num_dummies"], found[1]) == (1, "one")


def test_claims_of_the_paper_are_counted_pair_by_pair() -> None:
    made = table("ablation", PARTS, range(2), by_order)
    found = {(each.claim.says, each.setting): (each.held, each.measured) for each in verdicts(spaces_of(made)[0])}
    assert found["both kinds together are above each by itself", 15] == (6, 6)
    assert found["C = 5 is above C = 1", 30] == (2, 2)
    assert found["each kind of placeholder is above the plain CNN", 15] == (2, 3)  # Mixup lies level with it
    assert {setting for _, setting in found} == {15, 30}
    (claim,) = verdicts(spaces_of(trade_off())[0])
    level = by_weights({"beta": 1.0, "gamma": 0.1}, 0)
    assert (claim.held, claim.measured) == (sum(by_weights(point, 0) < level - 1e-12 for point in GRID), 24)


def test_points_fill_a_grid_where_they_are_half_of_it() -> None:
    def is_grid(cells: list[tuple[int, int]]) -> bool:
        points = [{"beta": 1.0 * beta, "gamma": 1.0 * gamma} for beta, gamma in cells]
        return spaces_of(table("few", points, range(1), lambda point, split: 0.5))[0].is_grid

    assert is_grid([(0, 0), (0, 1), (1, 2), (1, 3)])  # of 2 x 4
    assert not is_grid([(0, 0), (1, 1), (2, 2)])  # of 3 x 3


def test_a_claim_is_checked_on_the_splits_that_both_points_have() -> None:
    claim = Claim("few are better", (({"num_dummies": 1}, {"num_dummies": 5}),), source="here")
    values = {(1, 0): 0.5, (1, 1): 0.9, (5, 0): 0.6, (5, 2): 0.1}
    points = [{"num_dummies": count} for count in (1, 5)]
    made = table("few", points, range(3), lambda point, split: values.get((point["num_dummies"], split), 0.0))
    for count, split in ((1, 2), (5, 1)):
        made = losing(made, {"num_dummies": count}, split)
    made = replace(made, spaces={"few": SpaceInfo(claims=(claim,))})
    assert [(each.held, each.measured) for each in verdicts(spaces_of(made)[0])] == [(0, 1)]
    made = losing(made, {"num_dummies": 5}, 0)
    assert [(each.held, each.measured) for each in verdicts(spaces_of(made)[0])] == [(0, 0)]


def test_a_point_of_two_spaces_stands_in_both() -> None:
    made = trade_off(range(1))
    shared = [
        {**row, "spaces": ["trade_off", "num_dummies"]} if row["params"]["gamma"] == 0.1 else row for row in made.rows
    ]
    both = replace(made, spaces={**made.spaces, "num_dummies": space_info("num_dummies")}, rows=shared)
    assert [len(space.points) for space in spaces_of(both)] == [25, 5]


def test_many_fields_are_told_by_where_a_point_departs_from_most() -> None:
    points: list[dict[str, Any]] = [{"lr": 0.05}, {"alpha": 1.0}, {"beta": 3.0}, {"gamma": 1.0}, {"epochs": 20}]
    (space,) = spaces_of(table("one_factor", points, range(1), lambda point, split: 0.5))
    assert [point.label for point in space.points] == ["lr 0.05", "alpha 1", "beta 3", "gamma 1", "epochs 20"]


def test_points_that_share_a_name_are_told_apart_and_compared_where_the_rest_is_equal_without_their_file(
    tmp_path: Path,
) -> None:
    space = tmp_path / "two_rates.py"
    claim = 'Claim("all is better", (("all", "halves"),), source="here", data_set="cifar100", num_known=15)'
    points = '{"halves": {"batch_use": "half"}, "all": {"batch_use": "all"}}'
    code = ["from tune_spaces import Claim", f"POINTS = {points}", f"CLAIMS = [{claim}]", "def param_space(): ..."]
    space.write_text("\n".join(code))
    grid = [{"batch_use": use, "lr": lr} for use in ("half", "all") for lr in (0.001, 0.01)]
    values = {("half", 0.001): 0.5, ("half", 0.01): 0.6, ("all", 0.001): 0.7, ("all", 0.01): 0.55}
    made = table(str(space), grid, range(1), lambda point, split: values[point["batch_use"], point["lr"]])
    space.unlink()
    write_table(made, tmp_path)
    made = read_table(tmp_path)
    (found,) = spaces_of(made)
    assert len({point.label for point in found.points}) == 4
    assert [point.label.partition(" ")[0] for point in found.points] == ["halves", "halves", "all", "all"]
    assert {(each.held, each.measured) for each in verdicts(found)} == {(1, 2)}
    page = results_page(made)
    assert "| 0.001 | 50.0 | **70.0** |" in page
    assert "| 0.01 | 60.0 | 55.0 |" in page


def test_whole_numbers_are_written_in_full() -> None:
    points = [{"batch_size": size} for size in (1020, 1024)]
    (space,) = spaces_of(table("sizes", points, range(1), lambda point, split: 0.5))
    assert [point.label for point in space.points] == ["batch_size 1020", "batch_size 1024"]
