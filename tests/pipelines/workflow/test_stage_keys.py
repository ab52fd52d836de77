"""What stands in the key of a stage: the code of its module, and what of its inputs decides."""

from pathlib import Path

import pytest

from pipelines.workflow.stage import STAGES, decisive
from pipelines.workflow.trained_split import TrainedSplit
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
