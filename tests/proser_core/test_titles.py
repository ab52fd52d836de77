"""Words of tables and messages."""

from proser_core.titles import counted


def test_one_thing_is_named_in_the_singular() -> None:
    assert [counted(count, "worker") for count in (0, 1, 2)] == ["0 workers", "1 worker", "2 workers"]
