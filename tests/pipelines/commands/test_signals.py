"""A command that is terminated while Ray waits, one whose terminal is closed, and one that `nohup` began."""

import io
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial

import pytest
from rich.console import Console

from pipelines.commands.serve import _stop_signals
from pipelines.commands.signals import terminated_by_signals
from pipelines.serving.monitor import ReplicaMonitor
from proser_core.exit_codes import Terminated, exit_code_of

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
COMMAND = """
import signal, sys
from pipelines.commands.signals import terminated_by_signals
from proser_core.exit_codes import exit_code_of
def command():
    with terminated_by_signals():
        print("ready", flush=True)
        if sys.stdin.isatty():
            signal.pause()  # a closed terminal ends what is read from it too
        return 0 if sys.stdin.readline() else 1
sys.exit(exit_code_of(command))
"""


@pytest.fixture(autouse=True)
def hangups() -> Iterator[None]:
    """Also where `nohup` began the tests: what it has a process ignore, its children ignore too."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_command_whose_terminal_is_closed_ends_as_a_terminated_one() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", COMMAND])
    seen = b""
    while b"ready" not in seen:
        seen += os.read(terminal, 1000)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 143


def test_a_hangup_in_a_pipe_is_one_line() -> None:
    with subprocess.Popen([sys.executable, "-c", COMMAND], text=True, **PIPES) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGHUP)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 143
    assert error == "\nproser: terminated; the same command continues from the last finished epoch\n"


def test_a_command_that_nohup_began_goes_on() -> None:
    ignore = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
    with subprocess.Popen([sys.executable, "-c", COMMAND], text=True, preexec_fn=ignore, **PIPES) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGHUP)
        process.communicate("\n", timeout=60)
    assert process.returncode == 0


def test_what_terminates_a_command_is_named_also_where_ray_has_made_an_interrupt_of_it() -> None:
    def command() -> int:
        with terminated_by_signals():
            try:
                signal.raise_signal(signal.SIGTERM)
            except KeyboardInterrupt:
                raise KeyboardInterrupt from None  # as `ray.get` does
        return 0

    assert exit_code_of(command) == 143


def test_an_interrupt_stays_one_and_the_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt) as raised, terminated_by_signals():
        signal.raise_signal(signal.SIGINT)
    assert not isinstance(raised.value, Terminated)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)) == before


def test_a_server_also_hears_a_signal_that_another_of_its_threads_got(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.serving.monitor.POLL_INTERVAL_S", 0.4)
    state = {"model": "m version 1", "problem": "", "replica": "a"}
    monitor = ReplicaMonitor(lambda seconds: state, state["model"], False, Console(file=io.StringIO()), str)
    kill = threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM))
    with _stop_signals() as listen:
        signals = listen()
        kill.start()
        assert monitor.until(signals) == 0


def test_a_server_ends_by_the_first_signal_and_later_ones_do_not_break_that_off() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with _stop_signals() as listen:
        assert signal.getsignal(signal.SIGTERM) == before, "while it starts, a signal ends it at once"
        signals = listen()
        assert signals.empty()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
        assert signals.qsize() == 2
    assert signal.getsignal(signal.SIGTERM) == before
