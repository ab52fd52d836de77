"""What commands say of themselves: light to load, within a terminal of 80 columns, the usual options first."""

import json
import os
import re
import subprocess
import sys

import pytest

from pipelines.cli import COMMANDS, GROUPS
from pipelines.commands.parsing import FIRST, FIRST_OF_OWN_IMAGES, HELP

FIRST_WORDS = {"run": ["digits"], "sweep": ["digits"], "job": ["digits"], "reproduce": ["cifar10"]}
HELP_LINES = [["--help"], ["help"], ["reproduce", "figures", "--help"]]
HELP_LINES += [[name, *FIRST_WORDS.get(name, []), "--help"] for name in COMMANDS]
NAMES_FIRST = [[name, "--help"] for name in FIRST_WORDS]
LONG = {(name, "digits"): first for name, first in FIRST.items()} | {("run", "folder"): FIRST_OF_OWN_IMAGES}
ASKED = [*HELP_LINES, *NAMES_FIRST, *([*words, each] for words in LONG for each in HELP[1:]), ["list"]]
ASK = """
import contextlib, io, json, sys
from pipelines.cli import main
heavy, answers = {"torch", "ray", "mlflow", "pandas", "scipy", "sklearn", "matplotlib"}, []
for words in json.loads(sys.argv[1]):
    sys.argv = ["proser", *words]
    written = io.BytesIO()
    text = io.TextIOWrapper(written, "utf-8", write_through=True)
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        assert main() == 0
    answers.append((words, written.getvalue().decode(), sorted(heavy & set(sys.modules))))
print(json.dumps(answers))
"""
Answers = dict[tuple[str, ...], tuple[str, set[str]]]
"""By the words of a command: what it prints, and what is loaded by then."""


@pytest.fixture(scope="module")
def answers() -> Answers:
    """Of one process that answers all of them, in a terminal of 80 columns."""
    command = [sys.executable, "-c", ASK, json.dumps(ASKED)]
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return {tuple(words): (text, set(loaded)) for words, text, loaded in json.loads(done.stdout)}


def test_no_help_loads_anything_heavy(answers: Answers) -> None:
    for words in HELP_LINES:
        text, loaded = answers[tuple(words)]
        assert (text.count("usage: proser"), loaded) == (1, set()), words


@pytest.mark.parametrize(("words", "policy"), [("predict", "passive"), ("run", "not set")])
def test_a_network_in_use_leaves_the_cores_to_those_that_decode(words: str, policy: str) -> None:
    show = "; print(os.environ.get('OMP_WAIT_POLICY', 'not set'))"
    code = f"import os, sys; sys.argv = ['proser', '{words}', 'none']; from pipelines.cli import main; main(){show}"
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout == f"{policy}\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_output_is_none_to_write_to(closed: str) -> None:
    """As of a daemon."""
    command = f"{sys.executable} -m pipelines.cli --version {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", LONG)
def test_help_has_the_ten_options_that_are_set_first_and_help_all_every_one(
    words: tuple[str, str], answers: Answers
) -> None:
    texts = [answers[*words, each][0] for each in HELP[1:]]
    short, whole = (set(re.findall(r"(?<=│ )--?[\w.-]+|(?<=, )--[\w.-]+", text)) for text in texts)
    first = {f"--{each.replace('_', '-')}" for each in LONG[words] if each != "spaces"}
    assert len(first) == 10
    assert {each for each in short if not re.search(r"[-.]no-", each)} - {"-h", "--help", "-o"} == first
    assert short < whole
    assert {"--finetune.lr", "--network.backbone", "--data.padding"} <= whole


def test_the_lines_of_a_docstring_are_joined_before_they_are_wrapped(answers: Answers) -> None:
    text, _ = answers["run", "digits", "--help-all"]
    assert "and on CPUs that have it. Scores and calibration are always fp32." in text
    assert max(map(len, text.splitlines())) == 80


def test_the_usage_has_every_command_in_a_group_and_fits_a_terminal(answers: Answers) -> None:
    text, _ = answers["--help",]
    assert answers["help",][0] == text
    assert [line for line in text.splitlines() if re.fullmatch(r"[A-Z][\w ]+:", line)] == [
        f"{title}:" for title in GROUPS
    ]
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert max(map(len, text.splitlines())) <= 80


def test_the_names_that_may_come_first_fit_a_terminal(answers: Answers) -> None:
    for words in NAMES_FIRST:
        assert max(map(len, answers[tuple(words)][0].splitlines())) <= 80, words


def test_what_may_be_omitted_is_explained_without_none(answers: Answers) -> None:
    for words in HELP_LINES:
        text, _ = answers[tuple(words)]
        assert "None" not in text, words
        assert not re.search(r"\(default: *(''|\[\])?\)", text), words


def test_listing_loads_no_torch(answers: Answers) -> None:
    assert answers["list",][1] <= {"scipy"}
