"""How a command ends when whoever reads its output has gone, or its disk is full, and when a path is not to be used."""

import os
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from proser_core.exit_codes import exit_code_of

PROGRAM = """
import sys
from proser_core.exit_codes import exit_code_of

def command():
    {body}
    return 0

sys.exit(exit_code_of(command))
"""


def run(body: str, stdout: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(body=body)], stdout=stdout, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("body", ["print('x' * 100_000)", "print('kept until the end', end='')"])
def test_a_reader_that_has_gone_ends_a_command_in_silence(body: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = run(body, writer)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.parametrize(("closed", "code"), [(">&-", 0), ("2>&-", 2)])
def test_a_closed_output_is_none_to_write_to(closed: str, code: int) -> None:
    """As of a daemon."""
    body = "print('done')" if code == 0 else "raise exit_code_of.__globals__['ProserError']('a reason')"
    command = f'{sys.executable} -c "$PROGRAM" {closed}'
    environment = {**os.environ, "PROGRAM": PROGRAM.format(body=body)}
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")


def test_letters_that_the_locale_lacks_are_escapes() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    program = [sys.executable, "-c", PROGRAM.format(body="print('\u4e2d')")]
    ended = subprocess.run(program, capture_output=True, text=True, env=environment)
    assert (ended.returncode, ended.stdout) == (0, "\\u4e2d\n")


@pytest.mark.parametrize("body", ["print('x' * 100_000)", "print('kept until the end', end='')"])
def test_an_output_whose_disk_is_full_is_one_line(body: str) -> None:
    with open("/dev/full", "w") as full:
        ended = run(body, full.fileno())
    line = (
        "proser: the disk of the output, or of temporary files, is full; free some space, and run the command again\n"
    )
    assert (ended.returncode, ended.stderr) == (1, line)


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        (
            "the model has no version 7; it has versions 1",
            ["proser: the model has no version 7;", "  it has versions 1"],
        ),
        ("no version 7 in /tmp/a; it has 1 or 2", ["proser: no version 7 in /tmp/a; it", "  has 1 or 2"]),
        ("need a URI as s3://of/a-bucket-with-a-name", ["proser: need a URI as", "  s3://of/a-bucket-with-a-name"]),
        ("first: `proser run digits --seed 2`", ["proser: first:", "  `proser run digits --seed 2`"]),
    ],
)
def test_an_error_on_a_terminal_is_broken_between_words_but_in_no_path_and_no_command(
    message: str, lines: list[str], tmp_path: Path
) -> None:
    reader, writer = os.openpty()
    termios.tcsetwinsize(writer, (24, 36))
    program = PROGRAM.format(body=f"import proser_core.errors as errors; raise errors.ConfigError({message!r})")
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-c", program]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=writer, env=environment, cwd=tmp_path)
    os.close(writer)
    assert os.read(reader, 1000).decode().splitlines() == lines
    os.close(reader)


def test_a_broken_pipe_of_something_else_is_told() -> None:
    ended = run("raise BrokenPipeError('a socket')", subprocess.PIPE)
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, "BrokenPipeError: a socket")


@pytest.mark.parametrize(
    "use",
    [
        lambda folder: folder.read_text(),
        lambda folder: (folder / "file" / "below").read_text(),
        lambda folder: (folder / ("x" * 300)).write_text(""),
    ],
    ids=["a folder", "below a file", "too long"],
)
def test_a_path_that_cannot_be_used_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], use: Callable[[Path], object]
) -> None:
    (tmp_path / "file").touch()

    def command() -> int:
        use(tmp_path)
        return 0

    assert exit_code_of(command) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"proser: {tmp_path}")
    assert error.count("\n") == 1


def test_a_file_that_the_program_misses_is_a_fault_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        exit_code_of(lambda: len((tmp_path / "missing").read_text()))
