"""What the documents tell a reader to type is accepted by the command line."""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import tyro

import proser_core
from pipelines import cli

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
STANDS_FOR = {"N": ["0"], "RECIPE": ["digits"], "...": ["digits", "trade_off"]}


class Accepted(BaseException):
    """Raised in place of running a command whose arguments were parsed."""


@pytest.fixture
def parser_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands end where their arguments are parsed."""
    parse = tyro.cli

    def stop(*arguments: Any, **options: Any) -> Any:
        parsed = parse(*arguments, **options)
        if options.get("return_unknown_args"):  # the schedule, before the other options
            return parsed
        raise Accepted

    monkeypatch.setattr(tyro, "cli", stop)


@pytest.mark.usefixtures("parser_alone")
def test_every_command_of_the_documents_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    found, refused = commands(), []
    for command in found:
        words = [word for told in command for word in STANDS_FOR.get(told, [told])]
        monkeypatch.setattr(sys, "argv", words)
        try:
            code: Any = cli.main()
        except Accepted:
            code = 0
        except SystemExit as ended:
            code = ended.code
        if code:
            refused.append(shlex.join(command))
    assert refused == []
    assert len(found) > 40


def test_the_table_of_the_library_has_every_public_name() -> None:
    rows = re.findall(r"^\| .* \|$", (ROOT / "docs/library.md").read_text(), re.MULTILINE)
    named = re.findall(r"`(\w+)`", "\n".join(rows))
    assert sorted(named) == sorted(proser_core.__all__)


def test_every_test_that_a_document_names_exists() -> None:
    named = [each for path in DOCUMENTS for each in re.findall(r"`(tests/\S+\.py)::(test_\w+)`", path.read_text())]
    assert len(named) > 15
    assert [each for each in named if f"def {each[1]}(" not in (ROOT / each[0]).read_text()] == []


def commands() -> list[tuple[str, ...]]:
    """The words of every `proser` command in a block of a document, each once."""
    blocks = [block for path in DOCUMENTS for kind, block in FENCED.findall(path.read_text()) if kind != "python"]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return sorted({tuple(shlex.split(line, comments=True)) for line in lines if line.strip().startswith("proser ")})
