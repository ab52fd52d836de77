"""The page of `/`, on which a person tries the model in a browser.

It holds nothing of the model, so that it needs no token: it asks `/` for the model, and `/predict` for each image.
"""

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Template
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse
from starlette.types import Scope

FOLDER = Path(__file__).parent / "try_it"


def wants_page(scope: Scope) -> bool:
    """Whether a request for `/` is a browser's, which names text/html and not JSON; curl and clients of the API name
    neither, or JSON."""
    if scope["method"] != "GET" or scope["path"] != "/":
        return False
    accepted = {kind.partition(";")[0].strip().lower() for kind in Headers(scope=scope).get("accept", "").split(",")}
    return "text/html" in accepted and "application/json" not in accepted


def try_it_page() -> HTMLResponse:
    """One file with its style and its script, and no others: the browser is told to run and to load nothing else."""
    text, policy = _page_and_policy()
    headers = {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "Vary": "Accept",
        "X-Content-Type-Options": "nosniff",
    }
    return HTMLResponse(text, headers=headers)


@cache
def _page_and_policy() -> tuple[str, str]:
    style, script = ((FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    page = Template((FOLDER / "page.html.jinja").read_text(encoding="utf-8"), autoescape=False).render(
        style=style, script=script
    )
    policy = [
        "default-src 'none'",
        f"style-src {_hash(style)}",
        f"script-src {_hash(script)}",
        "require-trusted-types-for 'script'",
        "img-src blob: data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    return page, "; ".join(policy)


def _hash(inline: str) -> str:
    """The name of an inline element in a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()}'"
