"""Chromium without a window, driven as a person would: by the DevTools protocol, over the websockets of uvicorn."""

import itertools
import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from waiting import PATIENCE_S, until
from websockets.sync.client import ClientConnection, connect


class Page:
    """One tab. `problems` are what its console reported as errors, violations of its security policy among them."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._numbers, self.problems = socket, itertools.count(), []
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE_S))
            if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.problems.append(message["params"]["entry"]["text"])
            if message.get("method") == "Runtime.exceptionThrown":
                self.problems.append(message["params"]["exceptionDetails"]["text"])
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(message["error"]["message"])
                return dict(message["result"])

    def open(self, address: str, width: int = 1200, height: int = 900) -> None:
        """Load another page, in a window of this size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=address)
        self.until(f"location.href === {json.dumps(address)} && document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """Of JavaScript in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"]["description"])
        return found["result"].get("value")

    def until(self, expression: str) -> Any:
        """The first value of JavaScript that is not false."""

        def log() -> str:
            return f"{expression} stays false; the page says {self.value('document.body.innerText')}"

        return until(lambda: self.value(expression), log=log)

    def choose(self, selector: str, *files: Path) -> None:
        """Files for an input, as its dialogue gives them."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(file) for file in files])

    def press(self, key: str) -> None:
        """A key that writes nothing, as Tab, or Enter."""
        text = {"text": "\r"} if key == "Enter" else {}
        code = {"Enter": 13, "Tab": 9}[key]
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def write(self, text: str) -> None:
        """Into what has the focus."""
        self.call("Input.insertText", text=text)


@contextmanager
def open_browser(program: str, folder: Path) -> Iterator[Page]:
    """A tab of a browser whose profile lies in `folder`."""
    shape = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}")
    command = [program, *shape, "--no-first-run", "--remote-debugging-port=0", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": str(folder)}) as process:
        try:
            port = _port(folder / "DevToolsActivePort", process)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=PATIENCE_S) as answer:
                tab = next(each for each in json.load(answer) if each["type"] == "page")
            with connect(tab["webSocketDebuggerUrl"], max_size=None) as socket:
                yield Page(socket)
        finally:
            process.terminate()


def _port(file: Path, process: "subprocess.Popen[bytes]") -> str:
    """On which the browser answers, once it does."""

    def written() -> list[str]:
        lines = file.read_text().split() if file.is_file() else []
        return lines if len(lines) == 2 else []

    return until(written, process)[0]
