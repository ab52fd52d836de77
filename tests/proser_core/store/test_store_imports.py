"""Folders from another machine are believed only after a look at what they say of themselves."""

import json
from pathlib import Path
from typing import Any

import pytest

from proser_core.errors import CheckpointError
from proser_core.store.store import MANIFEST, Store, import_artefact, write_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished folder, and files outside of it."""
    made = tmp_path / "there" / "trials" / "key"
    made.mkdir(parents=True)
    (made / "weights").write_text("weights")
    (tmp_path / "there" / "evil").write_text("weights")
    write_manifest(made, {})
    return made


def edit(folder: Path, **changes: Any) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, **changes}))


def test_a_link_out_of_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (folder / "weights").unlink()
    (folder / "weights").symlink_to(tmp_path / "there" / "evil")  # whose content has the listed digest
    with pytest.raises(CheckpointError, match="weights is a link out of its folder; copy the folder again"):
        import_artefact(folder, "trials", Store(tmp_path / "storage"))
    assert not list((tmp_path / "storage").rglob("weights"))


def test_a_finished_folder_is_adopted(folder: Path, tmp_path: Path) -> None:
    adopted = import_artefact(folder, "trials", Store(tmp_path / "storage"))
    assert (adopted.path / "weights").read_text() == "weights"


def test_what_was_damaged_in_the_storage_is_replaced_as_a_whole(folder: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "storage")
    adopted = import_artefact(folder, "trials", store)
    (adopted.path / "weights").write_text("damaged")
    (adopted.path / "more").write_text("")
    assert import_artefact(folder, "trials", store) == adopted
    assert sorted(path.name for path in adopted.path.iterdir()) == [MANIFEST, "weights"]
    assert (adopted.path / "weights").read_text() == "weights"


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"complete": False}, "is incomplete by its"), ({"linked": ["../gone"]}, r"links to \.\./gone, which is missing")],
)
def test_what_no_storage_could_use_is_refused_with_its_cause(
    folder: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    edit(folder, **changes)
    with pytest.raises(CheckpointError, match=message):
        import_artefact(folder, "trials", Store(tmp_path / "storage"))


@pytest.mark.parametrize("name", ["../../evil", "deep/../../../evil", "{root}/there/evil"])
def test_a_name_outside_the_folder_is_refused_and_nothing_written(folder: Path, tmp_path: Path, name: str) -> None:
    name = name.format(root=tmp_path)
    digest = json.loads((folder / MANIFEST).read_text())["files"]["weights"]
    edit(folder, files={name: digest})
    with pytest.raises(CheckpointError, match="evil', which lies outside its folder"):
        import_artefact(folder, "trials", Store(tmp_path / "storage"))
    assert list((tmp_path / "storage").iterdir()) == []


@pytest.mark.parametrize(
    ("field", "value"), [("files", ["weights"]), ("inputs", "x"), ("linked", {}), ("linked", [1]), ("complete", "yes")]
)
def test_a_field_of_another_kind_is_refused_by_name(folder: Path, tmp_path: Path, field: str, value: Any) -> None:
    edit(folder, **{field: value})
    with pytest.raises(CheckpointError, match=rf"{field}(\[0\])? is .*; need"):
        import_artefact(folder, "trials", Store(tmp_path / "storage"))
