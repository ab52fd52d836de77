"""What commands say of themselves: light to load, within a terminal of 80 columns, the usual options first."""

import json
import os
import re
import subprocess
import sys

import pytest

from pipelines.cli import COMMANDS, GROUPS
from pipelines.commands.parsing import FIRST, HELP

FIRST_WORDS = {"run": ["digits"], "sweep": ["digits"], "job": ["digits"], "reproduce": ["cifar10"]}
HELP_LINES = [["--help"], ["reproduce", "figures", "--help"]]
HELP_LINES += [[name, *FIRST_WORDS.get(name, []), "--help"] for name in COMMANDS]
ASK_FOR_HELP = """
import contextlib, json, sys
from pipelines.cli import COMMANDS, main
for sys.argv in json.loads(sys.argv[1]):
    with contextlib.suppress(SystemExit):
        assert main() == 0
print("loaded:", *sorted({"torch", "ray", "mlflow", "pandas", "scipy", "sklearn", "matplotlib"} & set(sys.modules)))
"""


def test_no_help_loads_anything_heavy() -> None:
    asked = json.dumps([["proser", *words] for words in HELP_LINES])
    done = subprocess.run([sys.executable, "-c", ASK_FOR_HELP, asked], capture_output=True, text=True, check=True)
    assert done.stdout.count("usage: proser") == len(HELP_LINES)
    assert done.stdout.splitlines()[-1] == "loaded:"


def helped(*words: str) -> str:
    command = [sys.executable, "-c", ASK_FOR_HELP, json.dumps([["proser", *words]])]
    environment = {**os.environ, "COLUMNS": "80"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


@pytest.mark.parametrize("name", FIRST)
def test_help_has_the_ten_options_that_are_set_first_and_help_all_every_one(name: str) -> None:
    words = [name, "digits"]
    short, whole = (set(re.findall(r"(?<=│ )--?[\w.-]+|(?<=, )--[\w.-]+", helped(*words, each))) for each in HELP[1:])
    first = {f"--{each.replace('_', '-')}" for each in FIRST[name] if each != "spaces"}
    assert len(first) == 10
    assert {each for each in short if "-no-" not in each} - {"-h", "--help", "-o"} == first
    assert short < whole
    assert {"--finetune.lr", "--network.backbone", "--data.padding"} <= whole


def test_the_lines_of_a_docstring_are_joined_before_they_are_wrapped() -> None:
    text = helped("run", "digits", "--help-all")
    assert "and on CPUs that have it. Scores and calibration are always fp32." in text
    assert max(map(len, text.splitlines())) == 80


def test_the_usage_has_every_command_in_a_group_and_fits_a_terminal() -> None:
    text = helped("--help")
    assert [line for line in text.splitlines() if re.fullmatch(r"[A-Z][\w ]+:", line)] == [
        f"{title}:" for title in GROUPS
    ]
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert max(map(len, text.splitlines())) <= 80


def test_listing_loads_no_torch() -> None:
    assert helped("list").splitlines()[-1] in ("loaded:", "loaded: scipy")
