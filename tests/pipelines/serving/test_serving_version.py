"""The version that a server serves: the one that its alias moves to, and what keeps the old one."""

import asyncio
import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from registered_models import Registry
from served_models import environment_of

from pipelines.serving.access import Access
from pipelines.serving.application import Routes
from pipelines.serving.limits import Limits
from pipelines.serving.metrics import Metrics
from pipelines.serving.recogniser import Options, Recogniser
from pipelines.serving.served_model import ServedModel
from proser_core.errors import TrackingError
from proser_core.recognition.open_set_classifier import OpenSetClassifier

pytestmark = pytest.mark.usefixtures("empty_programs")


class TestServedModel:
    @pytest.fixture
    def registry(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classifier: OpenSetClassifier) -> Registry:
        environment_of(classifier, tmp_path, "held", monkeypatch)
        return Registry(tmp_path, "held")

    def test_a_version_that_cannot_be_loaded_leaves_the_old_one(
        self, registry: Registry, classifier: OpenSetClassifier
    ) -> None:
        served = ServedModel("models:/held@champion", "cpu")
        assert (served.current.number, served.problem) == ("1", "")
        spoiled = registry.add(replace(classifier, calibration=replace(classifier.calibration, bias=0.5)))
        cards = [card for card in registry.folder.rglob("classifier.json") if '"bias": 0.5' in card.read_text()]
        for card in cards:
            card.write_text(card.read_text().replace('"bias": 0.5', '"bias": 0.25'))
        registry.client.set_registered_model_alias("held", "champion", spoiled.version)
        served.poll()
        assert "was changed after it was saved" in served.problem
        assert served.brief == "version 2 cannot be loaded"
        assert served.current.number == "1"
        registry.client.set_registered_model_alias("held", "champion", "1")
        served.poll()
        assert (served.current.number, served.problem) == ("1", "")

    def test_an_alias_that_is_gone_is_a_problem_and_no_end(self, registry: Registry) -> None:
        served = ServedModel("models:/held@champion", "cpu")
        registry.client.delete_registered_model_alias("held", "champion")
        served.poll()
        assert "no alias 'champion'" in served.problem
        assert served.current.number == "1"

    def test_a_health_check_tells_a_problem_without_its_details(self, registry: Registry) -> None:
        access = Access(("127.0.0.1",))
        recogniser = Recogniser(Options("models:/held@champion", "", "cpu", Limits(), 256, 0, access))
        registry.client.delete_registered_model_alias("held", "champion")
        recogniser.model.poll()
        problem = json.loads(bytes(asyncio.run(Routes(recogniser).health()).body))["problem"]
        assert problem == "the registry does not answer, or the alias is gone"

    def test_a_health_check_tells_that_nothing_follows_the_alias_any_more(self, registry: Registry) -> None:
        """As where the pause is longer than a thread can wait."""
        options = Options("models:/held@champion", "", "cpu", Limits(), 256, 0, Access(("127.0.0.1",)))
        recogniser, stop = Recogniser(options), threading.Event()
        with pytest.raises(OverflowError):
            recogniser.model.follow(threading.TIMEOUT_MAX * 2, stop)
        problem = json.loads(bytes(asyncio.run(Routes(recogniser).health()).body))["problem"]
        assert problem == "the alias is not followed any more; start the server again"

    def test_a_model_that_was_deleted_and_made_anew_is_another_version_with_its_own_expected_scores(
        self, registry: Registry, classifier: OpenSetClassifier
    ) -> None:
        metrics = Metrics()
        served = ServedModel("models:/held@champion", "cpu", metrics.serves)
        registry.client.delete_registered_model("held")
        registry.add(replace(classifier, calibration=replace(classifier.calibration, bias=0.5)))
        served.poll()
        assert (served.current.number, served.current.classifier.calibration.bias) == ("1", 0.5)
        (expected,) = (each for each in metrics.collect() if each.name == "proser_validation_unknown_score")
        (count,) = (sample.value for sample in expected.samples if sample.name.endswith("_count"))
        assert classifier.validation_scores is not None
        assert count == len(classifier.validation_scores.known_scores)

    def test_only_an_alias_moves(self, registry: Registry, classifier: OpenSetClassifier, tmp_path: Path) -> None:
        classifier.save(tmp_path / "folder")
        uris = ("models:/held@champion", "models:/held/1", str(tmp_path / "folder"))
        assert [ServedModel(uri, "cpu").has_alias for uri in uris] == [True, False, False]

    def test_no_model_to_begin_with_is_refused(self, registry: Registry) -> None:
        with pytest.raises(TrackingError, match="no version '7'"):
            ServedModel("models:/held/7", "cpu")
