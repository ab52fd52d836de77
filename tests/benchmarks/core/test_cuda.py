"""The benchmark of the graphed step, from given seconds."""

from benchmarks.core import cuda


def test_targets_of_a_gpu_are_of_each_round_and_not_measured_without_one() -> None:
    samples = {cuda.GRAPHED: [1.0, 2.0, 1.0], cuda.OURS: [4.0, 4.0, 4.0], cuda.RELEASED: [7.0, 7.0, 7.0]}
    found = cuda.targets({"bf16": samples})
    assert [target.measured for target in found] == [4.0, 7.0, None, None]
    assert [target.verdict for target in found] == ["met", "missed", "not measured", "not measured"]
    against_eager = cuda.comparisons("bf16", 128, samples, "note")[1]
    assert against_eager.rows[0][4] == 4.0
