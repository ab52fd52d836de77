import pytest

from proser_core.processor import has_bf16


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("flags\t\t: fpu avx2 avx512_bf16", True),
        ("flags\t\t: fpu amx_bf16 amx_tile", True),
        ("Features\t: fp asimd bf16", True),
        ("flags\t\t: fpu avx2 avx512f", False),
        ("model name\t: bf16 in the name only", False),
        ("", False),
    ],
)
def test_bf16_is_read_from_the_flags_of_the_processor(tmp_path, flags, expected):
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor\t: 0\n{flags}\n")
    assert has_bf16(path) is expected


def test_a_processor_that_does_not_tell_its_flags_has_no_bf16(tmp_path):
    assert has_bf16(tmp_path / "none") is False
