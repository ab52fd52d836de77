"""`proser promote`: which version of a model is the champion, decided on the same images."""

from dataclasses import replace
from functools import partial
from typing import Any

from rich.console import Console

from pipelines.console import say
from pipelines.reports.promotion_report import (
    Contender,
    comparison_figure,
    comparison_tables,
    decision_note,
    differing_classes,
    metrics_of,
)
from pipelines.storage.option import DEFAULT_STORAGE
from pipelines.tracking import decisions
from pipelines.tracking.decisions import Decision, alone, carry_out
from pipelines.tracking.models import LoadedModel, load
from pipelines.tracking.server import connect, shown_uri
from pipelines.tracking.versions import CALIBRATED_FROM, CANDIDATE, CHAMPION, CHOSEN_AMONG, model_named
from pipelines.workflow.best_of import MOST_MEMBERS, register_best
from pipelines.workflow.requests import PromoteRequest
from proser_core.config import Recipe
from proser_core.errors import ConfigError, ProserError, TrackingError
from proser_core.naming import composed
from proser_core.recognition.comparison import LEAST, Comparison, Side, compare, compare_common
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.validation_scores import Proxy, ValidationScores


def promote(request: PromoteRequest, console: Console) -> int:
    """Compare, decide, record, and move the alias; exit code 1 where the candidate is refused. Raises TrackingError
    where there is no such version, where the two cannot be compared, or where another promotion comes in between."""
    _check(request)
    client, is_first = connect(writes=True), False
    if request.best_of:
        asked = request.best_of, request.storage, request.split_index, request.model_name
        made = register_best(*asked, members=request.ensemble, say=partial(say, console))
        name, version = made.name, made.version
        is_first = made.made_champion and request.alias == CHAMPION
    else:
        name, version = model_named(client, request.model_name), request.version
    candidate = load(f"models:/{name}" + (f"/{version}" if version else f"@{CANDIDATE}"))
    assert candidate.version is not None
    passes = candidate.classifier.forward_passes
    if passes > 1:
        say(console, f"{candidate.title} is an ensemble: each prediction takes {passes} forward passes")
    with alone(name):
        before = decisions.settle(client, name, request.alias)
        if before == candidate.version.number:
            how = "now: it is the model's first version" if is_first else "already; nothing to do"
            say(console, f"{candidate.title} is the {request.alias} {how}")
            return 0
        wanted = Decision(decisions.PROMOTED, name, request.alias, candidate.version.number, before)
        if not before:
            carry_out(client, wanted, {}, f"# {wanted.title}\n\nNo version had the alias before.\n")
            say(console, f"{candidate.title} is the {wanted.alias} now; there was none before")
            return 0
        try:
            champion = load(f"models:/{name}/{before}")
        except ProserError as error:
            if not request.force:
                raise TrackingError(f"{error}. --force promotes {candidate.title} without a comparison") from error
            wanted = replace(wanted, kind=decisions.FORCED)
            carry_out(client, wanted, {}, f"# {wanted.title}\n\nNot compared: {error}\n")
            say(console, f"{wanted.title}; not compared: {error}")
            return 0
        return _decide(client, wanted, candidate, champion, request, console)


def _check(request: PromoteRequest) -> None:
    """Raises ConfigError for a tolerance that is no fraction, an alias that MLflow refuses, two candidates, a name that
    no new model may have, an ensemble of too many trials, or what is of a sweep without one."""
    if not 0 <= request.tolerance < 1:
        raise ConfigError(f"--tolerance got {request.tolerance:g}; need a fraction of 0 or more below 1, such as 0.02")
    decisions.check_alias(request.alias)
    if request.best_of and request.version:
        raise ConfigError("--version and --best-of name two candidates; give one of them")
    if request.best_of and request.model_name:
        Recipe(model_name=request.model_name)  # whose check it is
    if not 1 <= request.ensemble <= MOST_MEMBERS:
        raise ConfigError(f"--ensemble got {request.ensemble}; need a number of trials from 1 to {MOST_MEMBERS}")
    of_sweep = {
        f"--ensemble {request.ensemble}": request.ensemble > 1,
        f"--split-index {request.split_index}": request.split_index is not None,
        f"--storage {request.storage}": request.storage != DEFAULT_STORAGE,
    }
    given = next((option for option, is_given in of_sweep.items() if is_given), None)
    if given and not request.best_of:
        raise ConfigError(f"{given} is about the trials of a sweep; name the sweep with --best-of")


def _compare(candidate: LoadedModel, champion: LoadedModel, request: PromoteRequest) -> Comparison | None:
    """None where the two saw different images, and force is to promote without. Raises TrackingError without force."""
    ours, theirs = candidate.classifier, champion.classifier
    scores, their_scores = ours.validation_scores, theirs.validation_scores
    names, their_names = (tuple(map(composed, each.class_names)) for each in (ours, theirs))
    advice = "Train both on the same class split, images, image size and seed, or promote it"
    if scores is None or their_scores is None:
        reason = "one of them has no record of its validation images"
    elif names == their_names and scores.is_of_images_of(their_scores):
        bias, proxies = theirs.calibration.bias, _proxies(ours, theirs)
        return compare(scores, ours.calibration, their_scores, bias, tolerance=request.tolerance, proxies=proxies)
    elif set(names) != set(their_names) or _are_own_photos(scores, their_scores):
        sides = (Side(scores, names, ours.calibration), Side(their_scores, their_names, theirs.calibration))
        found = compare_common(*sides, tolerance=request.tolerance)
        if found is not None:
            return found
        pairs = (scores, candidate), (their_scores, champion)
        old = next((model for each, model in pairs if each.images is None), None)
        reason = f"they have fewer than {LEAST} validation images in common of the classes that both know"
        if old is not None:
            reason = f"{old.title} was saved by an earlier proser, which did not record which images validated it"
            advice = "Promote it"
    else:
        reason = "their validation and development images are not the same"
        if ours.image_size != theirs.image_size:
            reason += f" (they see them at {ours.image_size} and {theirs.image_size} pixels)"
    if request.force:
        return None
    raise TrackingError(
        f"{candidate.title} and {champion.title} cannot be compared: {reason}. {advice} without a comparison with "
        "--force"
    )


def _are_own_photos(*sides: ValidationScores) -> bool:
    """Whether all classes are known and photos are identified by their files, which release 0.1 did not do: it may be
    true of one side alone. Photos that both have are compared."""
    return any(each.contents is not None for each in sides) and all(each.is_known.all() for each in sides)


def _proxies(ours: OpenSetClassifier, theirs: OpenSetClassifier) -> tuple[Proxy, Proxy] | None:
    """Where both have one, of the same images: the same classes held out."""
    if ours.proxy is None or theirs.proxy is None:
        return None
    same = ours.proxy.validation_scores.is_of_images_of(theirs.proxy.validation_scores)
    return (ours.proxy, theirs.proxy) if same else None


def _decide(
    client: Any,
    wanted: Decision,
    candidate: LoadedModel,
    champion: LoadedModel,
    request: PromoteRequest,
    console: Console,
) -> int:
    comparison = _compare(candidate, champion, request)
    objections = ["it could not be compared"] if comparison is None else comparison.objections
    if objections:
        wanted = replace(wanted, kind=decisions.FORCED if request.force else decisions.REFUSED)
    figure, sides = None, (_contender(candidate), _contender(champion))
    if comparison is not None:
        for table in comparison_tables(comparison, *sides):
            console.print(table)
        figure = comparison_figure(comparison, candidate.title, champion.title)
        for line in (*differing_classes(comparison), *sides[0].chosen()):
            say(console, line)
    note = decision_note(wanted.title, comparison, objections, *sides)
    run_id = carry_out(client, wanted, {} if comparison is None else metrics_of(comparison), note, figure)
    for objection in objections:
        say(console, f"objection: {objection}")
    if wanted.kind == decisions.REFUSED:
        say(console, f"refused: {champion.title} stays the {wanted.alias}; --force promotes it anyway")
    else:
        say(console, f"{wanted.kind}: {candidate.title} is the {wanted.alias} now, instead of {champion.title}")
    say(console, f"recorded as run {run_id} of {shown_uri()}")
    return 1 if wanted.kind == decisions.REFUSED else 0


def _contender(model: LoadedModel) -> Contender:
    tags = {} if model.version is None else model.version.tags
    chosen_among = int(tags.get(CHOSEN_AMONG, 1))
    return Contender(model.title, model.classifier.results, CALIBRATED_FROM in tags, chosen_among)
