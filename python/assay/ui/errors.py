"""Errors of the API: what the command line would print, as JSON."""

from __future__ import annotations

import logging
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from assay.errors import AssayError, UnknownNameError

LOGGER: Final = logging.getLogger("assay.ui")
EXIT_BAD_INPUT: Final = AssayError.exit_code
EXIT_INTERNAL: Final = 70


class ErrorBody(BaseModel):
    """The fields of an error."""

    message: str
    hint: str | None = None
    exit_code: int = EXIT_BAD_INPUT
    """The exit code that the command line would end with."""


class ErrorResponse(BaseModel):
    """The body of every refusal."""

    error: ErrorBody


class NotThereError(AssayError):
    """Something that a path names does not exist."""


def error_response(
    status: int, message: str, hint: str | None = None, exit_code: int = EXIT_BAD_INPUT
) -> JSONResponse:
    """The HTTP response of an error."""
    # JSON can hold unpaired surrogates of hostile paths, UTF-8 cannot.
    message = message.encode("utf-8", "backslashreplace").decode()
    hint = hint and hint.encode("utf-8", "backslashreplace").decode()
    body = ErrorResponse(error=ErrorBody(message=message, hint=hint, exit_code=exit_code))
    return JSONResponse(body.model_dump(), status)


def install(app: FastAPI) -> None:
    """Respond to every error of the app in this shape."""

    @app.exception_handler(AssayError)
    async def refused(_: Request, error: AssayError) -> JSONResponse:
        is_missing = isinstance(error, (UnknownNameError, NotThereError))
        return error_response(
            404 if is_missing else 400, error.message, error.hint, error.exit_code
        )

    @app.exception_handler(OSError)
    async def unreadable(_: Request, error: OSError) -> JSONResponse:
        reason = error.strerror or str(error)
        named = f"{error.filename}: {reason}" if error.filename else reason
        return error_response(404 if isinstance(error, FileNotFoundError) else 400, named)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"] if part not in ("query", "body"))
        return error_response(422, f"{field}: {first['msg']}" if field else str(first["msg"]))

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        response = error_response(error.status_code, str(error.detail))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> JSONResponse:
        LOGGER.error("a request failed", exc_info=error)
        return error_response(
            500,
            f"internal error: {type(error).__name__}",
            "this is a bug in Assay; the log of assay ui has its traceback",
            EXIT_INTERNAL,
        )
