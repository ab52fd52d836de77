"""The model card (Mitchell et al. 2019) of a classifier: what it knows, how it decides, how well, and its limits."""

import re
from collections.abc import Mapping

from pipelines.summary import percent
from proser_core.recognition.open_set_classifier import OpenSetClassifier

MODEL_CARD = "MODEL_CARD.md"
Results = Mapping[str, float]


def model_card(classifier: OpenSetClassifier, others: Mapping[str, Results]) -> str:
    """Markdown; `others` are the controls' metrics by name, on the same images."""
    results = [*_scores({"this model": classifier.results, **others}), *_proxy(classifier)]
    return "\n".join([*_knows(classifier), "", *_decides(classifier), "", *results, "", *_limits(classifier)])


def recalibrated_card(classifier: OpenSetClassifier, before: str, source: str) -> str:
    """The card of a classifier with a new bias: the results stay those of the model that it was made of."""
    results = before.partition("## Results")[2].partition("## Limits")[0].rstrip()
    note = f"Measured with the calibration of {source}, on the images of its training; the new bias was not evaluated."
    return "\n".join(
        [*_knows(classifier), "", *_decides(classifier), "", f"## Results{results}", "", note, "", *_limits(classifier)]
    )


def _knows(classifier: OpenSetClassifier) -> list[str]:
    size, network, recipe = classifier.image_size, classifier.network, classifier.recipe
    names = classifier.class_names
    return [
        f"# Open-set classifier, {len(names)} classes of {recipe['data']['name']}",
        "",
        f"Knows: {', '.join(names)}. Everything else it is to call unknown.",
        "",
        f"Images in RGB, {size} x {size} pixels; others are resampled. Network {network.backbone}, "
        f"{classifier.net.dummies.out_features} dummy classifiers (PROSER, CVPR 2021). Recipe {recipe['name']}, "
        f"class split {recipe['data']['split_index']}, seed {recipe['seed']}.",
    ]


def _decides(classifier: OpenSetClassifier) -> list[str]:
    calibration, margin = classifier.calibration, classifier.margin
    low, high = calibration.interval
    return [
        "## Calibration",
        "",
        f"An image is known where its margin, {margin.formula}, is at least {calibration.bias:.4f}. "
        f"This keeps {percent(calibration.known_rate)} % of {calibration.num_images} images of known classes known "
        f"(target {100 * calibration.target_rate:g} %); of new images of the same kind {percent(low)} to "
        f"{percent(high)} % stay known, with 95 % confidence. `proser calibrate` fits it to images of your own.",
    ]


def _scores(rows: Mapping[str, Results]) -> list[str]:
    found = [re.fullmatch(r"test/unknown_(\d+)/auroc", name) for results in rows.values() for name in results]
    settings = sorted({int(match[1]) for match in found if match})
    header = ["method", *(f"{count} unknown classes" for count in settings), "accuracy", "known"]
    measured = "AUC / macro-F1 on test images by number of unknown classes, closed-set accuracy"
    lines = [
        "## Results",
        "",
        f"{measured if settings else 'Closed-set accuracy on test images'}, and share of known images "
        "that stay known, in percent; all methods calibrated by the same rule. Nothing was chosen on these images.",
        "",
        "| " + " | ".join(header) + " |",
        "| --- |" + " ---: |" * (len(header) - 1),
    ]
    for name, results in rows.items():
        cells = [
            f"{percent(results[f'test/unknown_{n}/auroc'])} / {percent(results[f'test/unknown_{n}/macro_f1'])}"
            for n in settings
        ]
        cells += [percent(results[f"test/{metric}"]) for metric in ("closed_set_accuracy", "known_rate")]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return lines


def _proxy(classifier: OpenSetClassifier) -> list[str]:
    """How well unknown images are found, of a model that knows every class that there was to measure with."""
    proxy = classifier.proxy
    if proxy is None:
        return []
    held_out = [name for name in classifier.class_names if name not in proxy.known]
    found = [re.fullmatch(r"test/unknown_(\d+)/auroc", name) for name in proxy.results]
    measured = [f"AUC {percent(proxy.results['dev/auroc'])}, macro-F1 {percent(proxy.results['dev/macro_f1'])} %"]
    measured[0] += " on the classes that hyperparameters were chosen by"
    for match in filter(None, found):
        auroc, macro_f1 = (proxy.results[f"test/unknown_{match[1]}/{name}"] for name in ("auroc", "macro_f1"))
        measured.append(f"AUC {percent(auroc)}, macro-F1 {percent(macro_f1)} % on {_further(int(match[1]))}")
    return [
        "",
        f"Unknown images, on a proxy: the same training without {', '.join(held_out)} found images of these "
        f"classes with {'; '.join(measured)}. The model itself knows them too.",
    ]


def _further(count: int) -> str:
    return "1 further class" if count == 1 else f"{count} further classes"


def _limits(classifier: OpenSetClassifier) -> list[str]:
    unknown = percent(1 - classifier.calibration.target_rate)
    return [
        "## Limits",
        "",
        f"- About {unknown} % of known images are called unknown by construction, more where new images differ from "
        "those of the calibration: `proser drift` compares them.",
        "- How many unknown images are found depends on how much they resemble a known class; the table says how well "
        "it went on the classes that it was tested with, and promises nothing about others.",
        "- The probabilities are not calibrated as frequencies; the decision and the order of unknown scores are what "
        "was evaluated.",
    ]
