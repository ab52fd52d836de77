"""HTTP servers on this machine that are no MLflow server, or not well."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def server_answering(answer: tuple[int, str] | None) -> Iterator[str]:
    """Address of an HTTP server that answers every request with this status and text, or not at all."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if answer is None:
                return
            self.send_response(answer[0])
            self.end_headers()
            self.wfile.write(answer[1].encode())

        do_POST = do_PUT = do_GET  # noqa: N815  # names of http.server

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()  # it ends within these seconds
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
