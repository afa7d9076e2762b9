"""Answers of the API are those of the commands: byte for byte what `--json --verbose` prints."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final

from fastapi.responses import Response

from assay.answers import Answer, json_text, to_json
from assay.ui.errors import ErrorResponse

REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": ErrorResponse} for status in (400, 401, 403, 404, 413, 421, 422)
}
"""What any request may be answered with, for the documentation of the API."""

EXIT_HEADER: Final = "Assay-Exit-Code"
"""The exit code that the command would end with, such as 3 where inputs are missing."""

_ONE_AT_A_TIME: Final = threading.Lock()
"""The equations are decoded when they are first used; two threads would do it twice."""


def answer(question: Callable[[], Answer], *, alone: bool = True) -> Response:
    """Ask a question and send its answer.

    What reads no equations passes `alone=False`, so that a slow answer holds up no other.
    """
    with _ONE_AT_A_TIME if alone else nullcontext():
        answered = question()
        text = json_text(answered)
    code = 0 if answered.problem is None else answered.problem.exit_code
    return _response(text, {EXIT_HEADER: str(code)})


def send(data: Any) -> Response:
    """Send data that no command prints; NaN and infinities become null, as in every answer."""
    return _response(to_json(data) + "\n", {})


def alone() -> threading.Lock:
    """The lock to hold while equations are read outside a question."""
    return _ONE_AT_A_TIME


def _response(text: str, headers: dict[str, str]) -> Response:
    return Response(
        text.encode("utf-8", "backslashreplace"), headers=headers, media_type="application/json"
    )
