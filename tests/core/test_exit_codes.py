"""How a command ends when whoever reads its output has gone."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from proser_core.errors import exit_code_of

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


def test_a_broken_pipe_of_something_else_is_told() -> None:
    ended = run("raise BrokenPipeError('a socket')", subprocess.PIPE)
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, "BrokenPipeError: a socket")
