"""Which images of a candidate and a champion are compared, and what is to be done where that are none."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from registered_models import classifier_of, of_photos

from pipelines.tracking.models import LoadedModel
from pipelines.tracking.versions import Version
from pipelines.workflow.promotion import _compare
from pipelines.workflow.requests import PromoteRequest
from proser_core.errors import TrackingError
from proser_core.recognition.comparison import Comparison
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.validation_scores import COMPARED, Proxy, ValidationScores
from proser_core.store.store import Artefact

pytestmark = pytest.mark.usefixtures("few_resamples")


def compared(
    candidate: OpenSetClassifier, champion: OpenSetClassifier, tolerance: float = PromoteRequest.tolerance
) -> Comparison:
    """Version 2 against version 1, as without force."""
    sides = zip(("2", "1"), (candidate, champion), strict=True)
    models = [LoadedModel(f"models:/digits/{it}", each, Version("digits", it, {}, "", 0.0)) for it, each in sides]
    found = _compare(*models, PromoteRequest(tolerance=tolerance))
    assert found is not None
    return found


def scores_of(classifier: OpenSetClassifier) -> ValidationScores:
    assert classifier.validation_scores is not None
    return classifier.validation_scores


def test_by_default_a_loss_of_several_points_is_not_tolerated(
    classifier: OpenSetClassifier, task: Artefact, closed_set_weights: Path
) -> None:
    worse = classifier_of(task, closed_set_weights, noise=0.25)
    loss = classifier.results["dev/closed_set_accuracy"] - worse.results["dev/closed_set_accuracy"]
    assert loss == pytest.approx(0.06, abs=0.02)
    assert any(each.startswith("closed-set accuracy: ") for each in compared(worse, classifier).objections)
    assert compared(worse, classifier, tolerance=0.2).objections == []


def test_a_candidate_that_lets_too_few_known_images_through_is_objected_to(classifier: OpenSetClassifier) -> None:
    strict = -float(np.quantile(scores_of(classifier).known_scores, 0.8))
    stricter = replace(classifier, calibration=replace(classifier.calibration, bias=strict))
    (objection,) = compared(stricter, classifier, tolerance=0.5).objections
    assert objection.startswith("known rate: 8")
    assert compared(classifier, stricter, tolerance=0.5).objections == [], "the champion's rate is no matter"


def test_versions_without_a_record_or_of_other_images_are_not_compared(
    classifier: OpenSetClassifier, of_other_images: OpenSetClassifier
) -> None:
    without = replace(classifier, validation_scores=None)
    for pair in ((without, classifier), (classifier, without)):
        with pytest.raises(TrackingError, match="one of them has no record of its validation images"):
            compared(*pair)
    with pytest.raises(TrackingError, match=r"2 and .* 1 cannot be compared: .* development images are not the same\."):
        compared(of_other_images, classifier)
    larger = replace(of_other_images, image_size=16)
    with pytest.raises(TrackingError, match=r"are not the same \(they see them at 16 and 8 pixels\)\."):
        compared(larger, classifier)


def test_the_same_photos_at_other_sizes_are_compared(classifier: OpenSetClassifier, bad: OpenSetClassifier) -> None:
    found = compared(of_photos(bad, 0, "at 224 pixels"), of_photos(classifier, 0, "at 32 pixels"))
    assert not found.common, "all images, not those of classes that both know"
    assert any(each.startswith("closed-set accuracy: ") for each in found.objections)


def test_where_photos_were_added_those_of_both_are_compared(classifier: OpenSetClassifier) -> None:
    before, known = of_photos(classifier, 0, "before"), int(scores_of(classifier).is_known.sum())
    found = compared(of_photos(classifier, 2, "after"), before, tolerance=0.03)
    assert (found.num_known, found.objections) == (8 * known, [])
    assert found.common == tuple(classifier.class_names)
    with pytest.raises(TrackingError, match="fewer than 20 validation images in common of the classes that both know"):
        compared(of_photos(classifier, 20, "others"), before)


def test_a_version_that_did_not_record_its_photos_is_named(classifier: OpenSetClassifier) -> None:
    old, new = of_photos(classifier, 0, "drawn by 0.1"), of_photos(classifier, 2, "drawn now")
    old = replace(old, validation_scores=replace(scores_of(old), images=None, contents=None))
    for pair, number in (((new, old), 1), ((old, new), 2)):
        with pytest.raises(
            TrackingError, match=rf"version {number} was saved by .*validated it\. Promote it .* --force$"
        ):
            compared(*pair)


def test_photos_of_versions_that_had_unknown_images_are_not_compared_without_these(
    classifier: OpenSetClassifier,
) -> None:
    count = len(scores_of(classifier).targets)
    photos = replace(scores_of(classifier), contents=np.arange(count, dtype=np.uint64))
    fewer = replace(photos.select(np.arange(count - 5)), fingerprint="fewer")
    with pytest.raises(TrackingError, match="development images are not the same"):
        compared(replace(classifier, validation_scores=fewer), replace(classifier, validation_scores=photos))


def test_the_same_photos_under_another_name_of_their_class_are_those_of_another_class(
    classifier: OpenSetClassifier,
) -> None:
    photos, (first, *others) = of_photos(classifier, 0, "before"), classifier.class_names
    found = compared(replace(photos, class_names=("renamed", *others)), photos, tolerance=0.1)
    assert found.common == tuple(others)
    assert f"the class {first} would no longer be known" in found.objections


def test_a_class_whose_accents_are_stored_in_another_way_is_the_same(classifier: OpenSetClassifier) -> None:
    one, other = (
        replace(of_photos(classifier, *photos), class_names=(name, *classifier.class_names[1:]))
        for photos, name in (((0, "before"), "caf\u00e9"), ((2, "after"), "cafe\u0301"))
    )
    found = compared(other, one, tolerance=0.03)
    assert (found.lost_classes, found.new_classes, found.objections) == ((), {}, [])


def test_proxies_are_compared_where_they_held_out_the_same_classes(classifier: OpenSetClassifier) -> None:
    held_out = scores_of(classifier)

    def with_proxy(scores: ValidationScores) -> OpenSetClassifier:
        proxy = Proxy(scores, classifier.calibration.bias, classifier.results, ("one",), ("other",))
        return replace(classifier, proxy=proxy)

    one, other = with_proxy(held_out), with_proxy(replace(held_out, fingerprint="others"))
    for champion, by_proxies in ((one, True), (other, False), (classifier, False)):
        found = compared(one, champion, tolerance=0.1)
        assert (found.by_proxies, set(found.differences)) == (by_proxies, set(COMPARED))
