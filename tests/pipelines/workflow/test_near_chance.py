"""Which accuracies of a pretraining guessing would reach, too."""

import pytest

from pipelines.workflow.stages.pretrain import is_near_chance


@pytest.mark.parametrize(
    ("correct", "count", "num_classes", "expected"),
    [
        (190, 200, 2, False),
        (110, 200, 2, True),
        (11, 15, 2, True),
        (12, 15, 2, False),
        (4, 4, 2, False),
        (60, 100, 3, False),
        (40, 100, 3, True),
        (9, 500, 100, True),
        (10, 500, 100, False),
    ],
)
def test_an_accuracy_is_near_chance_where_guessing_would_reach_it(
    correct: int, count: int, num_classes: int, expected: bool
) -> None:
    assert is_near_chance(correct, count, num_classes) == expected
