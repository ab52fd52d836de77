"""What `proser serve` prints of its replicas, and when it ends."""

import io
import signal
import threading
import time
from queue import SimpleQueue
from typing import Any

import pytest
from rich.console import Console

from pipelines.serving.monitor import POLL_INTERVAL_S, SILENCE_TIMEOUT_S, ReplicaMonitor


class TestReplicaMonitor:
    """With replicas that answer as a test says."""

    def monitored(
        self,
        *states: dict[str, str] | Exception,
        several: bool = False,
        status: Any = None,
        lasts: float = POLL_INTERVAL_S,
    ) -> tuple[ReplicaMonitor, str]:
        """After one poll per state; a poll lasts as many seconds, by the monitor's clock."""
        out, now = io.StringIO(), 0.0
        console, status = Console(file=out, width=120), status or (lambda: "RUNNING")
        answers = iter(states)

        def ask(seconds: float) -> dict[str, str]:
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monitor = ReplicaMonitor(ask, "m version 1", several, console, status, lambda: now)
        for _ in states:
            monitor.poll()
            now += lasts
        return monitor, out.getvalue()

    def of(self, version: int, problem: str = "", replica: str = "a") -> dict[str, str]:
        return {"model": f"m version {version}", "problem": problem, "replica": replica}

    def test_a_new_version_and_a_problem_are_told_once(self) -> None:
        away = "the registry does not answer"
        states = [self.of(1), self.of(2), self.of(2), self.of(2, away), self.of(2, away), self.of(2)]
        _, text = self.monitored(*states)
        assert text.splitlines() == [
            "now m version 2",
            "still m version 2: the registry does not answer",
            "follows the registry again",
        ]

    def test_of_several_replicas_each_is_told(self) -> None:
        states = [self.of(1, replica="a"), self.of(2, replica="b"), self.of(1, replica="a"), self.of(2, replica="a")]
        _, text = self.monitored(*states, several=True)
        assert text.splitlines() == ["replica b: now m version 2", "replica a: now m version 2"]

    @pytest.mark.parametrize("lasts", [POLL_INTERVAL_S, 3 * POLL_INTERVAL_S])
    def test_silence_ends_it_only_where_it_lasts(self, lasts: float) -> None:
        """By the clock, however long a poll waits for an answer."""
        lost = [ConnectionError("gone")] * (int(SILENCE_TIMEOUT_S / lasts) + 1)
        monitor, _ = self.monitored(*lost, self.of(1), *lost, lasts=lasts)
        assert monitor.ended == ""
        monitor, _ = self.monitored(*lost, ConnectionError("gone"), lasts=lasts)
        assert monitor.ended == f"no replica has answered for {SILENCE_TIMEOUT_S:g} s"

    def test_a_server_that_was_shut_down_is_the_end_at_once(self) -> None:
        monitor, _ = self.monitored(ConnectionError("gone"), status=lambda: "DELETING")
        assert monitor.ended == "it is being shut down"

    def test_a_controller_that_is_gone_is_no_crash(self) -> None:
        def gone() -> str:
            raise RuntimeError("The actor is dead")

        monitor, _ = self.monitored(ConnectionError("gone"), status=gone)
        assert monitor.ended == ""

    def test_it_ends_when_it_is_stopped_or_when_nothing_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pipelines.serving.monitor.POLL_INTERVAL_S", 0.01)
        signals: SimpleQueue[int] = SimpleQueue()
        monitor, _ = self.monitored()
        signals.put(signal.SIGTERM)
        assert monitor.until(signals) == 0
        monitor, _ = self.monitored(status=lambda: "NOT_STARTED")
        assert monitor.until(signals) == 1

    @pytest.mark.parametrize("question", ["ask", "status"])
    def test_it_ends_also_where_a_question_to_ray_never_returns(
        self, question: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pipelines.serving.monitor.POLL_INTERVAL_S", 0.01)
        monkeypatch.setattr("pipelines.serving.monitor.SILENCE_TIMEOUT_S", 0.1)
        hangs = threading.Event()
        monitor, _ = self.monitored()
        monitor.clock = time.monotonic
        setattr(monitor, question, lambda *_: hangs.wait())
        assert monitor.until(SimpleQueue()) == 1
        hangs.set()
