"""The model card (Mitchell et al. 2019) of a classifier: what it knows, how it decides, how well, and its limits."""

import re
from collections.abc import Mapping

from proser_core.data.splits.class_split import in_words, setting_at, where
from proser_core.recognition.bootstrap import intervals, too_few
from proser_core.recognition.result_tables import KNOWN_COLUMNS, known_columns, table_lines
from proser_core.recognition.scores import FURTHER_SCORES
from proser_core.recognition.trained_classifier import TrainedClassifier
from proser_core.recognition.validation_scores import COMPARED
from proser_core.titles import METRICS, best_marked, percent

Results = Mapping[str, float]


def model_card(classifier: TrainedClassifier) -> str:
    """Markdown. Results are those of the calibration that the classifier was trained with, and say so where it has
    another one since."""
    measured = {_own_row(classifier): classifier.results, **classifier.controls}
    tested = "test/closed_set_accuracy" in classifier.results
    scores = _scores(measured) if tested else ["None were measured on test images."]
    results = ["## Results", "", *_recalibrated(classifier), *scores, *_proxy(classifier)]
    if classifier.classes is not None:
        results += ["", "### Classes", "", *classifier.classes.lines()]
    results += [line for name, note in classifier.notes.items() for line in ("", f"{name}: {note}.")]
    decides = [*_decides(classifier), "", *_known_rates(classifier)]
    return "\n".join([*_knows(classifier), "", *_members(classifier), *decides, *results, "", *_limits(classifier)])


def _knows(classifier: TrainedClassifier) -> list[str]:
    size, names = classifier.image_size, classifier.class_names
    recipe, count = classifier.recipe, classifier.num_dummies
    dummies = f"{count} dummy classifiers (PROSER, CVPR 2021)" if count else "without dummy classifiers"
    if classifier.forward_passes > 1:
        dummies = f"an ensemble of {classifier.forward_passes} with dummy classifiers (PROSER, CVPR 2021)"
    if classifier.own is not None:
        dummies = f"scored by {classifier.score_function.name} ({classifier.score_function.source})"
    data = recipe["data"]
    split = f"{data.get('split_family', '')} {data['split_index']}".strip()  # older classifiers have no family
    return [
        f"# Open-set classifier, {len(names)} classes of {data['name']}",
        "",
        f"Knows: {', '.join(names)}. Everything else is to be called unknown.",
        "",
        f"Images in RGB, {size} x {size} pixels; others are resampled. Network {classifier.architecture}, "
        f"{dummies}. Recipe {recipe['name']}, class split {split}, seed {recipe['seed']}.",
    ]


def _members(classifier: TrainedClassifier) -> list[str]:
    """Lines on an ensemble: what it is the mean of, what it costs, and how it compares with its members."""
    if classifier.forward_passes == 1:
        return []
    rows = {_own_row(classifier): classifier.results, **{each.name: each.results for each in classifier.members}}
    lines = [
        "## Ensemble",
        "",
        f"The logits are the mean of those of {classifier.forward_passes} networks, so that each prediction takes "
        f"{classifier.forward_passes} forward passes. The dummy logit is the mean of each network's largest one.",
        "",
    ]
    metrics = [name for name in COMPARED if all(f"dev/{name}" in results for results in rows.values())]
    if classifier.members:
        columns = [_column(rows, f"dev/{name}") for name in metrics]
        lines += [
            "The networks are the best trials of a sweep on validation images and development unknowns, on which they "
            "have, in percent:",
            "",
            *table_lines(["trial", *(METRICS[name] for name in metrics)], zip(rows, *columns, strict=True)),
            "",
        ]
    return lines


def _decides(classifier: TrainedClassifier) -> list[str]:
    calibration, rate = classifier.calibration, classifier.results.get(KNOWN_COLUMNS["known"])
    low, high = calibration.interval
    tested = "" if rate is None or _recalibrated(classifier) else f" Of the known test images {percent(rate)} % did."
    return [
        "## Calibration",
        "",
        f"An image is unknown where its score, {_score_in_words(classifier)}, is above {-calibration.bias:.4f}. "
        f"This keeps {percent(calibration.known_rate)} % of {calibration.num_images} images of known classes known "
        f"(target {100 * calibration.target_rate:.4g} %); of new images of the same kind {percent(low)} to "
        f"{percent(high)} % stay known, with 95 % confidence.{tested} `proser calibrate` fits it to other "
        "images, which must not be those of the training.",
    ]


def _known_rates(classifier: TrainedClassifier) -> list[str]:
    rates = classifier.known_rates
    return ["### Which known rate?", "", *rates.lines(), ""] if rates else []


def _score_in_words(classifier: TrainedClassifier) -> str:
    score = classifier.score_function
    named = f"{score.name} ({score.source}): {score.formula}"
    mirrored = ", averaged with the mirrored image" if classifier.mirror else ""
    return (named if score.name in FURTHER_SCORES else score.formula) + mirrored


def _recalibrated(classifier: TrainedClassifier) -> list[str]:
    measured = classifier.results.get("calibration/bias", classifier.calibration.bias)
    if measured == classifier.calibration.bias:
        return []
    before = f"Test images were measured before the recalibration, with the threshold {-measured:.4f}"
    return [f"{before}; the new threshold was not evaluated.", ""]


def _own_row(classifier: TrainedClassifier) -> str:
    return "before recalibration" if _recalibrated(classifier) else "this model"


def _scores(rows: Mapping[str, Results]) -> list[str]:
    found = [re.fullmatch(r"(test/[^/]+)/auroc", name) for results in rows.values() for name in results]
    settings = sorted({setting_at(match[1]) for match in found if match}, key=lambda each: (str(type(each)), each))
    is_balanced = all(
        KNOWN_COLUMNS["balanced"] in results for results in rows.values()
    )  # older classifiers: no cells, no column
    known = known_columns(lambda metric: _column(rows, metric) if is_balanced else [])
    header = ["method", *(in_words(setting, "class" if setting == 1 else "classes") for setting in settings), *known]
    by = "outlier set" if any(isinstance(setting, str) for setting in settings) else "number of unknown classes"
    measured = f"AUROC / macro-F1 on test images by {by}, closed-set accuracy"
    balanced = " and its mean over the classes (balanced)" if "balanced" in known else ""
    lines = [
        f"{measured if settings else 'Closed-set accuracy on test images'}{balanced}, and share of known images "
        "that stay known, in percent; all methods calibrated by the same rule. Nothing was chosen on these images.",
        "",
    ]
    pairs = [[_column(rows, f"{where(setting)}/{metric}") for metric in ("auroc", "macro_f1")] for setting in settings]
    columns = [[f"{auroc} / {macro_f1}" for auroc, macro_f1 in zip(*both, strict=True)] for both in pairs]
    columns += [_column(rows, metric) for metric in known.values()]
    return lines + table_lines(header, zip(rows, *columns, strict=True))


def _column(rows: Mapping[str, Results], metric: str) -> list[str]:
    """A metric of each method in percent, the best bold."""
    return best_marked(metric, [results[metric] for results in rows.values()])


def _proxy(classifier: TrainedClassifier) -> list[str]:
    """How well unknown images are found, of a model that knows every class that there was to measure with."""
    proxy = classifier.proxy
    if proxy is None:
        return []
    known = proxy.validation_scores.is_known
    found, ends = proxy.metrics(), {}
    if not too_few(known):
        ends = {
            name: f"95 % interval {percent(low)} to {percent(high)}"
            for name, (low, high) in intervals(proxy.validation_scores, proxy.bias).items()
        }
    chosen = " and ".join(
        f"{METRICS[name]} {percent(found[name])} ({ends.get(name, 'too few images for an interval')})"
        for name in ("auroc", "macro_f1")
    )
    lines = [
        "",
        "### Unknown images, on a proxy",
        "",
        "The model knows every class that there was, so this was measured on the same training without "
        f"{', '.join((*proxy.chose, *proxy.reported))}, in percent:",
        "",
        f"- {', '.join(proxy.chose)}, held out to choose by: {chosen}, on {int(known.sum())} validation "
        f"images and {int((~known).sum())} unknown ones.",
    ]
    if proxy.reported:
        named = ("auroc",) if _recalibrated(classifier) else ("auroc", "macro_f1")  # macro-F1 had another threshold
        measured = (
            f"{METRICS[name]} {percent(proxy.results[f'{where(len(proxy.reported))}/{name}'])}" for name in named
        )
        lines.append(
            f"- {', '.join(proxy.reported)}, by which nothing was chosen: {' and '.join(measured)}, on test images."
        )
    return lines


def _limits(classifier: TrainedClassifier) -> list[str]:
    unknown, score = percent(1 - classifier.calibration.target_rate), classifier.score_function
    rate = classifier.results.get(KNOWN_COLUMNS["known"])
    were = "" if rate is None or _recalibrated(classifier) else f" ({percent(1 - rate)} % of the test images were)"
    limits = [
        "## Limits",
        "",
        f"- About {unknown} % of known images are called unknown by construction{were}, more where new images "
        "differ from those of the calibration (`proser drift` compares them), or where these also chose among many "
        "networks.",
        "- How many unknown images are found depends on how much they resemble a known class; the results say how well "
        "it went on the classes that were tested with, and promise nothing about others.",
        "- The probabilities are not calibrated as frequencies; the decision and the order of unknown scores are what "
        "was evaluated.",
    ]
    if not score.is_exportable:
        limits.append(f"- There is no exported program of it, because the score {score.name} has no form in torch.")
    return limits
