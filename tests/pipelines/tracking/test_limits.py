"""Texts that MLflow's databases have room for."""

from hypothesis import given
from hypothesis import strategies as st

from pipelines.tracking.origins import LONGEST_NAME, shortened
from pipelines.tracking.runs import fitting

SECTIONS = st.lists(st.text(st.characters(codec="ascii", exclude_characters="#\r"), max_size=60), min_size=1)


@given(SECTIONS, st.integers(-60, 60))
def test_a_text_keeps_whole_sections_and_says_where_the_rest_is(sections: list[str], more: int) -> None:
    text = "\n## ".join([*sections, 200 * "a"])
    room = len(text) + more
    kept = fitting(text, room, "card.md")
    assert len(kept) <= room
    if len(text) <= room:
        assert kept == text
        return
    head, end = kept.split("\n\nThe other sections are in card.md")
    assert end == ", among the artifacts.\n"
    assert text.startswith(head)
    if len(sections) > 1:
        whole = {"\n## ".join(sections[:count]).rstrip() for count in range(1, len(sections) + 1)}
        assert head in whole


def test_a_section_is_kept_whole_or_left_out() -> None:
    text = "about\n## one\n" + 40 * "a " + "\n## two\n" + 40 * "b "
    assert fitting(text, 160, "card.md").startswith("about\n## one\n" + (40 * "a ").rstrip() + "\n\nThe other")


@given(st.integers(-5, 5), st.characters())
def test_a_name_is_cut_to_the_length_that_a_run_may_have(more: int, last: str) -> None:
    name = "a" * (LONGEST_NAME + more - 1) + last
    assert shortened(name) == (name if more <= 0 else "a" * (LONGEST_NAME - 3) + "...")
