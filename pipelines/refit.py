"""A run that knows every class there is, as for images of your own: hyperparameters are chosen on a proxy, which is
the same training with some classes held out as unknown; then all classes are trained on.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipelines.context import RunContext
from pipelines.run import exit_code, finish, print_results, run_stages
from pipelines.stages.evaluate import CLASSIFIER, read_evaluation
from proser_core.config import FinetuneConfig, Recipe, from_json
from proser_core.errors import DataError
from proser_core.jobs.spec import PROSER
from proser_core.recognition.holdout import Proxy
from proser_core.recognition.open_set_classifier import OpenSetClassifier

HELD_OUT = 0.2
"""Share of the classes that chooses, and as many again that only report; at least one, where two stay known."""
OpenContext = Callable[..., RunContext]


def choose_and_refit(recipe: Recipe, num_classes: int, open_context: OpenContext, started: float) -> int:
    """Run the proxy's stages, then those of the refit; the exit code is 1 where a trial failed or tracking was lost.

    `open_context` takes a recipe and `pretrained_file`. Raises DataError for fewer than two classes.
    """
    proxy_recipe = proxy_of(recipe, num_classes)
    refit, proxy, code = refit_of(recipe, num_classes, recipe.finetune), None, 0
    context = open_context(refit, pretrained_file=None)  # first: what can be refused is refused before any work
    if proxy_recipe is None:
        context.say("2 classes: none can be held out, so the recipe's own fine-tune is taken as it is")
    else:
        proxy, tuned, code = _choose(proxy_recipe, open_context)
        refit = refit_of(recipe, num_classes, tuned)
        context = open_context(refit, pretrained_file=None)
        context.proxy = proxy
        context.say(f"all {num_classes} classes, with what the proxy chose")
    return max(code, finish(refit, context, started))


def proxy_of(recipe: Recipe, num_classes: int) -> Recipe | None:
    """The recipe with classes held out, or None where there are too few. Raises DataError for fewer than two."""
    if num_classes < 2:
        raise DataError(
            f"{recipe.data.name} has {num_classes} class(es); need 2 or more to tell apart. Add a folder of images for "
            "each further class"
        )
    if num_classes == 2:
        return None
    held_out = min(max(1, round(HELD_OUT * num_classes)), num_classes - 2)
    reported = min(held_out, num_classes - 2 - held_out)
    data = replace(
        recipe.data,
        num_known=num_classes - held_out - reported,
        unknown_settings=(reported,) if reported else (),
        development=f"held-out-{held_out}",
    )
    return replace(recipe, name=f"{recipe.name}-proxy", data=data)


def refit_of(recipe: Recipe, num_classes: int, tuned: FinetuneConfig) -> Recipe:
    """The recipe on all classes with one fine-tune."""
    return replace(recipe, data=replace(recipe.data, num_known=num_classes), finetune=tuned, space="")


def _choose(recipe: Recipe, open_context: OpenContext) -> tuple[Proxy, FinetuneConfig, int]:
    """What the proxy says of the training, the fine-tune that it chose, and its exit code."""
    context = open_context(recipe, pretrained_file=None)
    data = recipe.data
    context.say(
        f"proxy: {data.num_known} classes are known, {data.num_development} held out to choose by"
        + (f", {data.unknown_settings[0]} to test by" if data.unknown_settings else "")
    )
    results = run_stages(recipe, context, "reported")
    print_results(recipe, context, results)
    evaluated = results["evaluated"]
    classifier = OpenSetClassifier.load(evaluated.path / CLASSIFIER)
    evaluation: dict[str, Any] = read_evaluation(evaluated)
    params, names = evaluation["selected"]["params"], FinetuneConfig.__dataclass_fields__
    tuned = from_json(FinetuneConfig, {name: value for name, value in params.items() if name in names})
    assert classifier.holdout is not None
    measured = evaluation["methods"][PROSER]["flat"]
    proxy = Proxy(classifier.holdout, classifier.calibration.bias, measured, classifier.class_names)
    return proxy, tuned, exit_code(context)
