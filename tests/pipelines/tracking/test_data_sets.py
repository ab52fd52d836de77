"""The images of a run as data sets of MLflow."""

from training_jobs import tiny_recipe

from pipelines.tracking.data_sets import data_sets
from pipelines.tracking.runs import ParentRun
from proser_core.data.tasks import TaskSummary
from proser_core.store.store import Artefact


def test_each_part_of_the_images_is_a_data_set_with_a_digest_of_its_content(parent: ParentRun, task: Artefact) -> None:
    for _ in range(2):
        parent.log_data_sets(data_sets(tiny_recipe(), task))
    logged = parent.client.get_run(parent.run_id).inputs.dataset_inputs
    contexts = {each.tags[0].value: each.dataset for each in logged}
    assert contexts.keys() == {"training", "validation", "development unknowns", "test"}
    assert {data.name for data in contexts.values()} == {f"digits {context}" for context in contexts}
    assert len({data.digest for data in contexts.values()}) == len(logged) == 4
    size = TaskSummary.read(task.path).image_size
    assert f"[-1, {size}, {size}, 3]" in contexts["test"].schema
