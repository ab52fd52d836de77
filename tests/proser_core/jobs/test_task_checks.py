"""Checks of a recipe against its images."""

from dataclasses import replace
from pathlib import Path

import pytest
from small_tasks import small_task
from training_jobs import tiny_recipe

from proser_core.errors import ConfigError
from proser_core.jobs.task_checks import check_batches


def test_only_batches_that_are_trained_with_must_be_filled(tmp_path: Path) -> None:
    """The recipe's own fine-tune, of batches of 32, is none of those of a job."""
    task, tiny = small_task(), tiny_recipe()
    task.save(tmp_path)
    recipe = replace(tiny, pretrain=replace(tiny.pretrain, batch_size=len(task.train)))
    check_batches(recipe, [], tmp_path)
    check_batches(recipe, [replace(tiny.finetune, batch_size=8)], tmp_path)
    with pytest.raises(ConfigError, match=r"finetune.batch_size 32 is more than the 12 training images"):
        check_batches(recipe, [tiny.finetune], tmp_path)
    with pytest.raises(ConfigError, match=r"pretrain.batch_size 32 is more than the 12 training images"):
        check_batches(tiny, [], tmp_path)
