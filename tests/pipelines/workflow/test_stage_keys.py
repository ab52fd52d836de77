"""What stands in the key of a stage: the code of its module, and what of its inputs decides."""

from pathlib import Path

import pytest

from pipelines.storage.storage import Storage
from pipelines.workflow.stage import STAGES, decisive, stage
from pipelines.workflow.stages.trial_rows import TrialRows, read_rows, write_rows
from pipelines.workflow.trained_split import TrainedSplit
from proser_core.config import FinetuneConfig
from proser_core.store.code_version import imported_modules, source_digests


def test_the_key_of_an_evaluation_holds_the_core_and_its_own_file_alone() -> None:
    stage = STAGES["evaluate"]
    assert all(module == stage or module.startswith("proser_core.") for module in imported_modules(stage))


def test_every_stage_has_a_module() -> None:
    assert source_digests(*STAGES.values())


def test_an_input_of_which_nothing_is_known_is_no_part_of_a_key_in_silence(split: TrainedSplit) -> None:
    assert decisive([split.task, None, {"a": 1}]) == [split.task.digest, None, {"a": 1}]
    with pytest.raises(TypeError, match="an input of type PosixPath"):
        decisive({"folder": Path("somewhere")})


def test_a_sweep_of_the_same_points_under_another_space_has_rows_of_its_own(
    split: TrainedSplit, tmp_path: Path
) -> None:
    store = Storage(tmp_path)
    point = split.recipe.finetune

    @stage("sweep")
    def swept(spaces: dict[str, list[FinetuneConfig]], max_seconds: float, folder: Path) -> None:
        rows = TrialRows({}, spaces, [point], str)
        write_rows([rows.row(trial) for trial in split.trials([point], store)], folder)

    for name, max_seconds in (("betas", 0.0), ("gammas", 0.0), ("betas", 60.0)):
        found = swept(store, spaces={name: [point]}, max_seconds=max_seconds)
        assert [row["spaces"] for row in read_rows(found)] == [[name]]
    assert len(list((tmp_path / "sweep").glob("*/trials.json"))) == 2, "how long it may take is in no key"
