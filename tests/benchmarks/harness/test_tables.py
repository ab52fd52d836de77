"""Tables of ratios and of targets."""

from benchmarks.harness.tables import Table, Target, comparison, targets_table


def test_a_ratio_is_taken_round_by_round() -> None:
    table = comparison("title", {"fast": [1.0, 2.0, 1.0], "slow": [2.0, 8.0, 3.0]}, against="slow")
    assert table.rows[0][1] == 1000.0
    assert table.rows[0][4] == 3.0  # the median of 2, 4 and 3
    assert table.rows[1][4:] == (1.0, 1.0, 1.0)


def test_no_number_below_a_million_is_written_as_a_power_of_ten() -> None:
    numbers = (0.9996, 999.4, 999.5, 1000.0, 123456.0)
    assert "| 1 | 999 | 1000 | 1000 | 123456 |" in Table("t", ("x",) * 5, [numbers]).markdown()


def test_what_was_not_measured_says_so() -> None:
    targets = [Target("a", 2.0, 1.5), Target("b", 2.0, 1.5, at_least=False), Target("c", None, 1.5)]
    assert [target.verdict for target in targets] == ["met", "missed", "not measured"]
    assert "| c | not measured | >= 1.5 x | not measured |" in targets_table(targets).markdown()
    assert "not measured" in Table("t", ("x",), [(None,)]).markdown()
