"""`proser clean`: lists what no run asks for again, and removes it only where told to, and only from a storage."""

import os
import re
import time
from pathlib import Path

import pytest
from own_networks import NEAREST
from pipeline_runs import Proser, printed

from pipelines.commands.clean import MAX_LISTED, CleanRequest, clean
from pipelines.workflow import stage as stage_module
from pipelines.workflow.stage import STAGES
from pipelines.workflow.stages.halving import RUNGS, WHOLE
from pipelines.workflow.stale_artefacts import FOLDERS, stale_artefacts
from proser_core.errors import ConfigError
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.jobs import preparing, spec
from proser_core.jobs.own_networks import plans
from proser_core.jobs.own_networks.plans import network_code
from proser_core.store.code_version import code_version
from proser_core.store.lock import exclusive_storage
from proser_core.store.store import MANIFEST, Store

ROOT = Path(__file__).parents[3]
OLD = 30 * 86_400
WORKER = code_version("proser_core.jobs.worker")
KEY = "0123456789abcdef"
HALF = f"trials/{KEY}"
OF_RAY = f"ray/{KEY}-{WHOLE}"


def made_old(storage: Path) -> None:
    for path in [*storage.rglob("*"), storage]:
        os.utime(path, (time.time() - OLD,) * 2)


def unfinished(storage: Path, *names: str) -> None:
    for name in names:
        (storage / name).mkdir(parents=True)
        (storage / name / "state.pt").write_bytes(b"1234")


def finished(storage: Path, stage: str, code: object) -> str:
    """An artefact of that code, by its place in the storage."""
    made = Store(storage).run(stage, {"code": code}, lambda folder: (folder / "data").write_bytes(b"1234") and None)
    return f"{stage}/{made.path.name}"


@pytest.fixture
def ours(tmp_path: Path) -> str:
    return finished(tmp_path, "trials", WORKER)


@pytest.fixture
def theirs(tmp_path: Path) -> str:
    return finished(tmp_path, "trials", "another")


@pytest.fixture
def storage(tmp_path: Path, ours: str, theirs: str) -> Path:
    """Finished work of this code and of other code, an unfinished training, and a folder of Ray's; all are old."""
    unfinished(tmp_path, HALF, OF_RAY)
    made_old(tmp_path)
    return tmp_path


def found(storage: Path, **options: object) -> dict[str, str]:
    values = {"older_than": 7.0, "outdated": False, **options}
    return {f"{each.stage}/{each.path.name}": each.reason for each in stale_artefacts(storage, **values)}


def carry_out(storage: Path, *, outdated: bool = False, yes: bool = False, list_all: bool = False) -> str:
    code, text = printed(clean, CleanRequest(storage, outdated=outdated, list_all=list_all, yes=yes))
    assert code == 0
    return text


def test_a_storage_in_the_home_directory_is_found_by_its_tilde(
    storage: Path, monkeypatch: pytest.MonkeyPatch, proser: Proser
) -> None:
    monkeypatch.setenv("HOME", str(storage.parent))
    code, shown, _ = proser("clean", f"--storage=~/{storage.name}")
    assert (code, shown.splitlines()[0]) == (0, str(storage))


def test_unfinished_work_and_what_ray_left_may_go_and_work_of_other_code_where_asked_for(
    storage: Path, theirs: str
) -> None:
    stale = {HALF: "interrupted, resumable", OF_RAY: "left by Ray"}
    assert found(storage) == stale
    assert found(storage, outdated=True) == stale | {theirs: "other code or Python version"}
    (storage / HALF / "state.pt").unlink()
    made_old(storage)
    assert found(storage)[HALF] == "unfinished"


def test_what_was_written_to_lately_stays(storage: Path) -> None:
    (storage / HALF / "epochs.jsonl").write_text("{}")
    assert found(storage) == {OF_RAY: "left by Ray"}


def test_where_all_was_written_to_lately_it_is_said(tmp_path: Path) -> None:
    unfinished(tmp_path, HALF)
    assert "1 folder written to within 7 days would be listed with --older-than 0" in carry_out(tmp_path)


def test_nothing_goes_without_a_yes(storage: Path, theirs: str) -> None:
    listed = carry_out(storage, outdated=True)
    assert f"{theirs}: other code or Python version" in listed
    assert "--yes deletes" in listed
    assert found(storage, outdated=True).keys() == {HALF, OF_RAY, theirs}


def test_with_a_yes_all_that_was_listed_goes_and_nothing_else(storage: Path, ours: str) -> None:
    assert "3 folders deleted" in carry_out(storage, outdated=True, yes=True)
    assert [f"trials/{path.name}" for path in (storage / "trials").iterdir()] == [ours]
    assert "nothing to delete" in carry_out(storage, outdated=True, yes=True)


@pytest.mark.parametrize("yes", [False, True])
def test_each_folder_is_named(storage: Path, yes: bool) -> None:
    lines = carry_out(storage, yes=yes).splitlines()
    assert lines[0] == str(storage)
    assert {f"  {HALF}: interrupted, resumable", f"  {OF_RAY}: left by Ray"} <= set(lines)


def test_of_very_many_folders_the_first_are_named_and_all_where_asked_for(storage: Path) -> None:
    unfinished(storage, *(f"sweep/{number:016x}" for number in range(MAX_LISTED)))
    made_old(storage)
    some, every = carry_out(storage), carry_out(storage, list_all=True)
    assert "and 2 more; --list-all lists all of them" in some
    assert some.count(": interrupted") + some.count(": left by Ray") == MAX_LISTED
    assert every.count(": interrupted") + every.count(": left by Ray") == MAX_LISTED + 2
    assert "more" not in every


def test_a_storage_in_use_is_left_alone(storage: Path) -> None:
    with exclusive_storage(storage, "proser sweep"), pytest.raises(ConfigError, match="proser sweep, process"):
        carry_out(storage, yes=True)


OF_A_USER = ["figures/chapter1", "report/draft2", "trials/0123", f"figures/{KEY}-new", "ray/scenes", f"ray/old-{KEY}"]


def test_folders_that_no_run_names_like_that_stay(storage: Path) -> None:
    unfinished(storage, *OF_A_USER)
    made_old(storage)
    assert found(storage, outdated=True).keys().isdisjoint(OF_A_USER)
    carry_out(storage, outdated=True, yes=True)
    assert all((storage / name / "state.pt").is_file() for name in OF_A_USER)


def test_a_folder_that_is_no_storage_is_refused_and_not_touched(tmp_path: Path) -> None:
    unfinished(tmp_path, *OF_A_USER, "ray/pretrain")
    made_old(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigError, match=r"no work of a run.*give the storage of a run"):
        carry_out(tmp_path, yes=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_trainings_and_sweeps_give_to_ray_is_known(storage: Path) -> None:
    of_ray = [
        f"ray/{name}"
        for name in ("pretrain", f"pretrain-{KEY}", f"finetune-{KEY}", *(f"{KEY}-{rung}" for rung in RUNGS))
    ]
    unfinished(storage, *of_ray)
    made_old(storage)
    assert {*of_ray, OF_RAY} < found(storage).keys()


def test_every_stage_of_the_code_is_known() -> None:
    constants = vars(spec) | vars(plans) | vars(preparing) | vars(stage_module)
    sources = (path.read_text() for package in ("pipelines", "proser_core") for path in (ROOT / package).rglob("*.py"))
    pattern = r'(?:store\.(?:run|folder)\(|@stage\(|artefact_folder\([\w.]+, )"?(?:spec\.)?(\w+)'
    calls = [call for text in sources for call in re.findall(pattern, text)]
    stages = {constants.get(name, name) for name in calls if name not in ("name", "stage")}  # variables
    assert stages == set(FOLDERS)


@pytest.mark.parametrize("stage", FOLDERS)
def test_every_stage_leaves_unfinished_work_and_work_of_other_code(tmp_path: Path, stage: str) -> None:
    half, theirs = f"{stage}/{KEY}", finished(tmp_path, stage, "another")
    unfinished(tmp_path, half)
    made_old(tmp_path)
    assert found(tmp_path, outdated=True) == {half: "interrupted, resumable", theirs: "other code or Python version"}


def test_work_of_this_code_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OWN_NETWORKS, NEAREST.name, NEAREST)
    finished(tmp_path, "methods", network_code(NEAREST))
    for name, module in STAGES.items():
        finished(tmp_path, name, code_version(module))
    made_old(tmp_path)
    assert found(tmp_path, outdated=True) == {}


def test_a_copy_that_was_broken_off_is_unfinished(storage: Path, ours: str) -> None:
    copy = f"trials/.{Path(ours).name}.123"
    unfinished(storage, copy)
    (storage / copy / MANIFEST).write_bytes((storage / ours / MANIFEST).read_bytes())
    made_old(storage)
    assert found(storage)[copy] == "unfinished"


@pytest.mark.parametrize("text", ["[]", "{}", '{"inputs": []}', "no JSON"])
def test_a_damaged_manifest_is_of_no_code(storage: Path, ours: str, text: str) -> None:
    (storage / ours / MANIFEST).write_text(text)
    made_old(storage)
    assert found(storage, outdated=True)[ours] == "other code or Python version"


def test_links_are_not_followed(storage: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    link, dangling = storage / "trials/fedcba9876543210", storage / HALF / "dangling"
    link.symlink_to(elsewhere)
    dangling.symlink_to(elsewhere / "nothing")
    for path in (elsewhere, link, storage / HALF, dangling):
        os.utime(path, (time.time() - OLD,) * 2, follow_symlinks=False)
    carry_out(storage, yes=True)
    assert elsewhere.is_dir()
    assert link.is_symlink()
    assert not (storage / HALF).exists()


def test_a_path_is_printed_as_it_is(tmp_path: Path) -> None:
    for name in ("br[old]", "a[/b]"):
        place = tmp_path / name
        place.mkdir(parents=True)
        assert f"nothing to delete in {place}\n" in carry_out(place)
        unfinished(place, HALF)
        made_old(place)
        assert f"{place}\n" in carry_out(place)
