"""What a promotion was decided on, as people read it."""

import io

from rich.console import Console

from pipelines.reports.promotion_report import Contender, comparison_figure, comparison_tables, decision_note
from proser_core.recognition.comparison import Comparison


def test_a_target_rate_has_four_digits_everywhere_as_calibrate_prints_it() -> None:
    found = Comparison({}, 0.9, (0.88, 0.92), 14 / 15, 0.02, 20, 20)
    sides = Contender("new", {}), Contender("old", {})
    out = io.StringIO()
    Console(file=out, width=200).print(*comparison_tables(found, *sides))
    for text in (out.getvalue(), decision_note("title", found, [], *sides), *found.objections[-1:]):
        assert "93.33" in text
        assert "93.333" not in text


def test_names_with_dollar_signs_are_drawn_as_they_are() -> None:
    comparison = Comparison({}, 0.9, (0.88, 0.92), 0.95, 0.02, 20, 20)
    comparison_figure(comparison, "a $_$ version 2", "a $_$ version 1").savefig(io.BytesIO())


def test_images_of_proxies_are_said_to_be_theirs() -> None:
    out, sides = io.StringIO(), (Contender("new", {}), Contender("old", {}))
    for by_proxies in (False, True):
        found = Comparison({}, 0.9, (0.88, 0.92), 0.95, 0.02, 20, 30, by_proxies=by_proxies)
        Console(file=out, width=200).print(*comparison_tables(found, *sides))
        for text in (out.getvalue(), decision_note("title", found, [], *sides)):
            assert "20 validation images" in text
            assert ("macro-F1 and AUROC of the proxies, with 30 development unknowns" in text) == by_proxies
