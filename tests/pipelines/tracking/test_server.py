"""The experiment that all runs are in."""

from pipelines.tracking.runs import NOTE, ParentRun
from pipelines.tracking.server import experiment_id


def test_a_new_run_says_what_the_experiment_is_and_an_own_description_stays(parent: ParentRun) -> None:
    client = parent.client
    assert "proser.selected" in client.get_experiment(parent.experiment_id).tags[NOTE]
    client.set_experiment_tag(parent.experiment_id, NOTE, "our own")
    experiment_id(client)
    assert client.get_experiment(parent.experiment_id).tags[NOTE] == "our own"
