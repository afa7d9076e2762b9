"""From a generation request to an HTTP response, full or streamed, for every endpoint."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Protocol

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from assay.engine.server.access_log import CLIENT_CLOSED_REQUEST
from assay.engine.server.async_engine import OutputDelta, OutputStream
from assay.engine.server.request_schemas import Sampling
from assay.engine.server.response_schemas import Usage
from assay.engine.server.service import GenerationRequest, Service
from assay.engine.server.streaming import (
    DONE,
    ClientDisconnectedError,
    EventStream,
    cancel_on_disconnect,
    event,
)


class ResponseFormatter(Protocol):
    """Formats the outputs of an endpoint."""

    def chunks(self, index: int, delta: OutputDelta) -> Iterable[BaseModel]:
        """The events for the new output of choice `index`."""

    def usage_chunk(self, usage: Usage) -> BaseModel:
        """The last event of a stream, with its usage."""

    def full(self, choices: Sequence[OutputDelta], usage: Usage) -> BaseModel:
        """The response with all choices."""


async def respond(
    service: Service,
    generation: GenerationRequest,
    formatter: ResponseFormatter,
    body: Sampling,
    request: Request,
) -> Response:
    """Respond in full or as a stream; a client that disconnects aborts its generation."""
    if body.stream:
        return EventStream(_events(service, generation, formatter, with_usage=body.wants_usage()))
    try:
        return await cancel_on_disconnect(request.receive, _full(service, generation, formatter))
    except ClientDisconnectedError:
        return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _full(
    service: Service, generation: GenerationRequest, formatter: ResponseFormatter
) -> Response:
    with service.open(generation) as stream:
        choices = await stream.collect()
    tokens = sum(choice.token_count for choice in choices)
    return JSONResponse(formatter.full(choices, usage_of(generation, stream, tokens)).model_dump())


async def _events(
    service: Service,
    generation: GenerationRequest,
    formatter: ResponseFormatter,
    *,
    with_usage: bool,
) -> AsyncGenerator[bytes, None]:
    tokens = 0
    with service.open(generation) as stream:
        async for index, delta in stream.deltas():
            tokens += delta.token_count
            for chunk in formatter.chunks(index, delta):
                yield event(chunk.model_dump())
    if with_usage:
        yield event(formatter.usage_chunk(usage_of(generation, stream, tokens)).model_dump())
    yield DONE


def usage_of(generation: GenerationRequest, stream: OutputStream, tokens: int) -> Usage:
    """The token counts of a request."""
    # A prompt counts once, by its first choice; the others find all of it in the prefix cache.
    cached = sum(stream.cached_tokens[:: generation.choices_per_prompt])
    return Usage.of(generation.prompt_tokens, tokens, cached)
