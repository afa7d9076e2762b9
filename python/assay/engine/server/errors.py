"""Error responses in the shape of OpenAI's API."""

from __future__ import annotations

import logging
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from assay.engine.core.admission import OverloadedError
from assay.engine.core.worker import StoppedError
from assay.engine.server.foreign_fields import path_hint
from assay.engine.server.validation_messages import Problem, problem_of
from assay.errors import AssayError, DeviceError, ModelError, OutOfMemoryError

LOGGER: Final = logging.getLogger("assay.server")

_TYPES: Final = {
    401: "authentication_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
}
_RETRY_SECONDS: Final = "1"


class ErrorBody(BaseModel):
    """The fields of an error."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorResponse(BaseModel):
    """The body of every error response."""

    error: ErrorBody


class ApiError(AssayError):
    """A refused request, with its HTTP status."""

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


def as_api_error(error: BaseException) -> ApiError:
    """The error for the client; internal errors are logged and not disclosed."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, OverloadedError):
        return ApiError(error.message, status=429, code="rate_limit_exceeded")
    if isinstance(error, StoppedError):
        return ApiError(error.message, status=503, code="unavailable")
    if isinstance(error, OutOfMemoryError):
        return ApiError(error.message, status=503, code="out_of_memory")
    if isinstance(error, ModelError):
        return ApiError(error.message, status=500, code="model_error")
    if isinstance(error, AssayError) and not isinstance(error, DeviceError):
        return ApiError(f"{error.message}; {error.hint}" if error.hint else error.message)
    LOGGER.error("a request failed", exc_info=error)
    return ApiError("the server failed on this request", status=500, code="internal_error")


def error_body(error: ApiError) -> dict[str, Any]:
    """The JSON of an error."""
    kind = _TYPES.get(error.status, "invalid_request_error")
    details = ErrorBody(
        message=_sendable(error.message),
        type=kind,
        param=error.param and _sendable(error.param),
        code=error.code,
    )
    return ErrorResponse(error=details).model_dump()


def _sendable(text: str) -> str:
    """The text with unpaired surrogates escaped: JSON can hold them, UTF-8 cannot."""
    return text.encode("utf-8", "backslashreplace").decode()


def error_response(error: BaseException) -> JSONResponse:
    """The HTTP response of an error."""
    api_error = as_api_error(error)
    headers = {"Retry-After": _RETRY_SECONDS} if api_error.status in (429, 503) else {}
    if api_error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error_body(api_error), api_error.status, headers)


def invalid_body(problem: Problem) -> ApiError:
    """The error of a body that does not fit."""
    message = f"{problem.field}: {problem.message}" if problem.field else problem.message
    return ApiError(message, param=problem.field or None, code=problem.code)


def install(app: FastAPI) -> None:
    """Respond to every error of the app in this shape."""

    @app.exception_handler(AssayError)
    async def refused(_: Request, error: AssayError) -> JSONResponse:
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        if isinstance(error.body, bytes):
            # The framework reads only bodies that are said to be JSON.
            kind = request.headers.get("content-type", "none")
            return error_response(
                ApiError(
                    f"Content-Type: expected application/json, got {kind:.60}",
                    status=415,
                    code="unsupported_media_type",
                )
            )
        return error_response(invalid_body(problem_of(error.errors(), error.body)))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        hint = path_hint(request.url.path) if error.status_code == 404 else ""
        response = error_response(ApiError(f"{error.detail}{hint}", status=error.status_code))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> JSONResponse:
        return error_response(error)
