"""`proser clean`: lists what no run asks for again, and removes it only where told to."""

import io
import os
import time
from pathlib import Path

import pytest
from rich.console import Console

from pipelines.cleaning import clean, leftovers
from proser_core.errors import ConfigError
from proser_core.jobs.code_version import code_version
from proser_core.jobs.lock import alone_in
from proser_core.jobs.store import seal

OLD = 30 * 86_400


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Finished work of this code and of other code, an unfinished training, and a folder of Ray's; all are old."""
    worker = code_version("proser_core.jobs.worker")
    for name, code in {"ours": worker, "theirs": "another"}.items():
        folder = tmp_path / "trials" / name
        folder.mkdir(parents=True)
        (folder / "weights.safetensors").write_bytes(b"1234")
        seal(folder, {"code": code})
    for name in ("trials/half", "ray/sweep-0"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "state.pt").write_bytes(b"1234")
    for path in [*tmp_path.rglob("*"), tmp_path]:
        os.utime(path, (time.time() - OLD,) * 2)
    return tmp_path


def names(storage: Path, **options: object) -> dict[str, str]:
    values = {"older_than": 7.0, "outdated": False, **options}
    return {each.path.name: each.reason for each in leftovers(storage, **values)}  # type: ignore[arg-type]


def carry_out(storage: Path, *, outdated: bool = False, yes: bool = False) -> str:
    out = io.StringIO()
    assert clean(storage, 7.0, outdated, yes, Console(file=out, width=120)) == 0
    return out.getvalue()


def test_unfinished_work_and_what_ray_left_may_go(storage: Path) -> None:
    assert names(storage) == {"half": "unfinished", "sweep-0": "left by Ray"}


def test_work_of_other_code_may_go_where_asked_for(storage: Path) -> None:
    assert names(storage, outdated=True) == {"half": "unfinished", "sweep-0": "left by Ray", "theirs": "of other code"}


def test_what_was_written_to_lately_stays(storage: Path) -> None:
    (storage / "trials/half/epochs.jsonl").write_text("{}")
    assert names(storage) == {"sweep-0": "left by Ray"}


def test_nothing_goes_without_a_yes(storage: Path) -> None:
    assert "--yes removes" in carry_out(storage, outdated=True)
    assert names(storage, outdated=True).keys() == {"half", "sweep-0", "theirs"}


def test_with_a_yes_all_that_was_listed_goes_and_nothing_else(storage: Path) -> None:
    assert "3 folders removed" in carry_out(storage, outdated=True, yes=True)
    assert [path.name for path in (storage / "trials").iterdir()] == ["ours"]
    assert "nothing to remove" in carry_out(storage, outdated=True, yes=True)


def test_a_storage_in_use_is_left_alone(storage: Path) -> None:
    with alone_in(storage, "proser sweep"), pytest.raises(ConfigError, match="proser sweep, process"):
        carry_out(storage, yes=True)
