"""Pretraining schedules by name, through the command line."""

from dataclasses import fields, replace

import pytest

import pipelines.commands.run
from pipelines.recipes import cifar100_cpu_finetune, digits
from pipelines.recipes.schedules import PRETRAINING
from pipelines.reproduction import reproducing
from proser_core.config import OptimizerConfig, Recipe


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """The recipes that would have been run."""
    recipes: list[Recipe] = []
    monkeypatch.setattr(pipelines.commands.run, "run_recipe", lambda request, _: recipes.append(request.recipe) or 0)
    return recipes


@pytest.mark.parametrize("form", [["--pretraining", "{}"], ["--pretraining={}"]])
@pytest.mark.parametrize("name", PRETRAINING)
def test_a_schedule_takes_the_place_of_the_recipes_own_and_of_nothing_else(name, form, parsed, proser):
    assert proser("run", "cifar100-cpu-finetune", *(part.format(name) for part in form))[0] == 0
    assert parsed == [replace(cifar100_cpu_finetune(), pretrain=PRETRAINING[name]())]


@pytest.mark.parametrize(
    ("words", "flip"),
    [
        ([], "auto"),
        (["--data.flip", "off"], False),
        (["--data.flip=on"], True),
        (["--data.flip", "auto", "--seed", "0"], "auto"),
    ],
)
def test_flips_are_on_or_off_or_decided_from_the_images(words, flip, parsed, proser):
    assert proser("run", "folder", *words)[0] == 0
    assert parsed[0].data.flip is flip or parsed[0].data.flip == flip == "auto"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data.flip", "True"], "--data.flip got 'True'; need one of auto, on, off."),
        (["--data.flip"], "--data.flip got no value; need {auto,on,off}."),
        (["--data.no-flip"], "no option is called '--data.no-flip'; did you mean --data.flip?"),
    ],
)
def test_another_word_for_flips_is_refused_with_those_that_there_are(words, message, proser):
    code, _, error = proser("run", "folder", *words)
    assert (code, message in error) == (2, True), error


@pytest.mark.parametrize("name", PRETRAINING)
def test_placeholders_from_the_first_epoch_take_a_schedule_too(name, parsed, proser):
    assert proser("run", "cifar100-cpu", "--pretraining", name, "--finetune.num-dummies", "3")[0] == 0
    (recipe,) = parsed
    shared = {field.name for field in fields(OptimizerConfig)}
    assert {name: getattr(recipe.finetune, name) for name in shared} == {
        name: getattr(recipe.pretrain, name) for name in shared
    }
    own = recipe.finetune
    assert (own.start, own.objective, own.batch_use, own.gamma, own.num_dummies) == ("scratch", "proser", "all", 0, 3)


@pytest.mark.parametrize(("name", "dropout"), [("short", 0.0), ("fast", 0.0), ("long", 0.2), ("strong", 0.2)])
def test_a_short_schedule_is_without_dropout_unless_it_is_given(name, dropout, parsed, proser):
    for arguments in ([], ["--network.dropout", "0.1"]):
        assert proser("run", "cifar100-paper", "--pretraining", name, *arguments)[0] == 0
    assert [recipe.network.dropout for recipe in parsed] == [dropout, 0.1]


@pytest.mark.parametrize(("name", "dropout"), [("short", 0.0), ("fast", 0.0), ("long", 0.2), ("strong", 0.2)])
def test_tables_are_trained_with_the_dropout_of_the_schedule(name, dropout, monkeypatch, proser):
    requests = []
    monkeypatch.setattr(reproducing, "reproduce", lambda request, _: requests.append(request) or 0)
    assert proser("reproduce", "cifar10", "--pretraining", name)[0] == 0
    assert (requests[0].recipe.network.dropout, requests[0].recipe.pretrain) == (dropout, PRETRAINING[name]())


def test_without_a_schedule_the_recipe_keeps_its_own(parsed, proser):
    assert proser("run", "digits")[0] == 0
    assert parsed == [digits()]


@pytest.mark.parametrize(
    "arguments",
    [["--pretraining", "strong", "--pretrain.epochs", "10"], ["--pretrain.epochs", "10", "--pretraining", "strong"]],
)
def test_fields_that_are_given_beside_a_schedule_come_on_top(arguments, parsed, proser):
    assert proser("run", "cifar100-cpu", *arguments)[0] == 0
    (recipe,) = parsed
    assert recipe.pretrain == replace(PRETRAINING["strong"](), epochs=10)


@pytest.mark.parametrize("arguments", [["list", "pretraining"], ["run", "digits", "--help"]])
def test_the_schedules_are_named_where_a_user_looks(arguments, proser):
    code, text, _ = proser(*arguments)
    assert code == 0
    assert "--pretraining" in text
    assert all(name in text for name in PRETRAINING)
