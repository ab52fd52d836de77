"""Why a tracking server does not do what it is asked, in words for people."""

import os
import re
from http import HTTPStatus

from proser_core.errors import first_line

NO_ACCESS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
FOREIGN_STATUS = re.compile(r"failed with error code (\d{3}) != 200")
FOREIGN_TEXT = "response body was not in a valid JSON format"
"""In what MLflow 3.17.2 says of an answer that an MLflow server would not give."""
CORRECT = "correct MLFLOW_TRACKING_URI, or unset it to track in ./mlflow.db"


def is_of_requests(error: BaseException) -> bool:
    """Whether it is an error of the HTTP library, which MLflow passes on where it uploads or downloads a file."""
    return type(error).__module__.startswith("requests.")


def reason_of(error: BaseException) -> str:
    """The first line of an error; where the HTTP library got no answer, what went wrong first, which it and MLflow put
    behind the addresses of all that it passed through."""
    first = _first_cause(error)
    if first is None:
        return first_line(error)
    if _is_timeout(first):
        return f"nothing came within {os.environ.get('MLFLOW_HTTP_REQUEST_TIMEOUT', '')} s"
    return first.strerror if isinstance(first, OSError) and first.strerror else first_line(first)


def first_answer(error: BaseException) -> str:
    """What a server answered to the first request, or that it did not, and what to do."""
    text = str(error)
    foreign = FOREIGN_STATUS.search(text)
    if foreign is not None and int(foreign[1]) in NO_ACCESS:
        return (
            f"answers {_status(foreign[1])}: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
            f"MLFLOW_TRACKING_TOKEN, for one who may use it; if it is no MLflow server, {CORRECT}"
        )
    if foreign is not None or FOREIGN_TEXT in text:
        answer = _status(foreign[1]) if foreign else "something else than JSON"
        return f"answers {answer}, as no MLflow server does; {CORRECT}"
    first = _first_cause(error)
    remedy = "start it" if first is None or not _is_timeout(first) else "wait, restart it"
    return f"does not answer ({reason_of(error)}); {remedy}, {CORRECT}"


def _first_cause(error: BaseException) -> BaseException | None:
    """The first cause of an error of the HTTP library; None where it had none, and for any other error. Behind it may
    be an error that was being handled when the request was made, which explains nothing."""
    chain = [error]
    while (cause := _cause(chain[-1])) is not None and _is_of_network(cause):
        chain.append(cause)
    return chain[-1] if any(map(is_of_requests, chain[:-1])) else None


def _is_of_network(error: BaseException) -> bool:
    return isinstance(error, OSError) or type(error).__module__.startswith(("urllib3.", "http."))


def _cause(error: BaseException) -> BaseException | None:
    """What an error was raised from or while handling, or that it wraps."""
    context = None if error.__suppress_context__ else error.__context__
    wrapped = (each for each in error.args if isinstance(each, BaseException))
    return error.__cause__ or context or next(wrapped, None)


def _is_timeout(error: BaseException) -> bool:
    """Whether it is a timeout of the HTTP library; one of the system has a number and says what it is."""
    return isinstance(error, TimeoutError) and not error.errno


def _status(number: str) -> str:
    """An HTTP status with its name."""
    named = {str(each.value): f" ({each.phrase})" for each in HTTPStatus}
    return f"HTTP status {number}{named.get(number, '')}"
