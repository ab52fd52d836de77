"""HTTP servers on this machine that are no MLflow server, or not well."""

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from waiting import PATIENCE_S


@contextmanager
def server_answering(answer: tuple[int, str] | None, before: str | None = None) -> Iterator[str]:
    """Address of an HTTP server that answers every request with this status and text, or not at all. It passes GET on
    to the server that it stands `before`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if answer is None:
                return
            status, content, headers = answer[0], answer[1].encode(), {}
            if before is not None and self.command == "GET":
                request = urllib.request.Request(before + self.path, headers={"Accept": self.headers["Accept"]})
                with urllib.request.urlopen(request, timeout=PATIENCE_S) as passed_on:
                    status, content = passed_on.status, passed_on.read()
                    headers = {"Content-Type": passed_on.headers["Content-Type"]}
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PUT = do_GET  # noqa: N815  # names of http.server

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()  # it ends within these seconds
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
