"""Who may ask: hosts that a request may name, and a token."""

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipelines.serving.page import wants_page
from proser_core.errors import ConfigError

TOKEN = "PROSER_TOKEN"
FREE = ("/health", "/v2/health/live", "/v2/health/ready")
"""Routes that need no token: probes have none. Nor does the page of `/`, which asks for it."""


@dataclass(frozen=True)
class Access:
    """Names that a request's Host header may have, besides addresses, localhost and the server's `own`, and whose pages
    may call; `*` is any. The digest is SHA-256 of the token, None where no token is needed: the token itself goes
    nowhere."""

    hosts: tuple[str, ...]
    token: bytes | None = field(default=None, repr=False)
    own: str = ""

    def refusal(self, scope: Scope) -> JSONResponse | None:
        """The response to a request that may not come in."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if host and not self._is_allowed(host):
            return problem(scope, 403, f"got the host {host!r}; start the server with --allowed-hosts to allow it")
        if origin is not None and origin.partition("://")[2] != host and not self.allows_page(origin):
            return problem(scope, 403, f"got a request of a page of {origin!r}; --allowed-hosts allows pages too")
        if self.token is None or scope["path"] in FREE or wants_page(scope):
            return None
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(token_digest(token.strip()), self.token):
            return None
        detail = "got no valid token; need the header `Authorization: Bearer TOKEN`"
        return problem(scope, 401, detail, {"WWW-Authenticate": "Bearer"})

    def allows_page(self, origin: str) -> bool:
        """Whether a page of another server, at `origin`, may send requests."""
        return _is_among(self.hosts, origin.partition("://")[2])

    def _is_allowed(self, host: str) -> bool:
        """A name that an attacker's DNS could point here is not; an address or localhost needs no DNS."""
        name = _hostname(host)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost" or name.endswith(".localhost") or _is_among((*self.hosts, self.own), host)
        return True


def token_digest(token: str) -> bytes:
    """SHA-256: digests of one length are compared in constant time."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def read_token(file: Path | None, from_environment: str | None) -> bytes | None:
    """The digest of the token in a file, else of the one in the environment; None where there is neither. Raises
    ConfigError for a file that cannot be read, or a token that no header can carry."""
    try:
        token = from_environment if file is None else file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"--token-file {file} cannot be read ({reason}); give a file with one token in it") from error
    if token is None:
        return None
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        where = TOKEN if file is None else f"--token-file {file}"
        raise ConfigError(f"{where} has no token that a header can carry; need one word of ASCII characters")
    return token_digest(token)


def problem(scope: Scope, status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """A response that says what is wrong, as the protocol of the route has it."""
    return JSONResponse({"error" if scope["path"].startswith("/v2") else "detail": text}, status, headers)


class Guard:
    """ASGI middleware that answers what may not come in, before its body is read."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse it or pass it on."""
        refusal = self._access.refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, *_closed_unless_read(scope, receive, send))


def _closed_unless_read(scope: Scope, receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Both of a request, whose answer ends the connection where the client still waits to send the body, by `Expect:
    100-continue`: the server could not know what comes then, the body or another request (RFC 9110, 10.1.1)."""
    waits = any(name == b"expect" for name, _ in scope.get("headers", ()))

    async def receiving() -> Message:
        nonlocal waits
        waits = False
        return await receive()

    async def sending(message: Message) -> None:
        if waits and message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    return receiving, sending


class Pages(CORSMiddleware):
    """ASGI middleware by which browsers give answers, refusals too, to the pages that may call; without credentials, so
    that a page has to know the token."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        super().__init__(app, allow_methods=("GET", "POST"), allow_headers=("Authorization", "Content-Type"))
        self._access = access

    def is_allowed_origin(self, origin: str) -> bool:
        """The rule of the guard."""
        return self._access.allows_page(origin)


def _is_among(hosts: tuple[str, ...], host: str) -> bool:
    name = _hostname(host)
    return "*" in hosts or (name != "" and any(name in (each.lower(), _hostname(each)) for each in hosts))


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # brackets that do not close
        return ""
