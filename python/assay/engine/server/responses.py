"""From a generation request to an HTTP response, full or streamed, for every endpoint."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Protocol

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from assay.engine.server.access_log import CLIENT_CLOSED_REQUEST
from assay.engine.server.direct_writer import DirectWriter
from assay.engine.server.output_delta import OutputDelta
from assay.engine.server.output_stream import OutputStream
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

    def plain_event(self, index: int, text: str) -> bytes | None:
        """The event of text that nothing else comes with; None where its model has to be built."""

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
        events = _Events(service, generation, formatter, with_usage=body.wants_usage())
        return EventStream(events.generate(), events.connect)
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


class _Events:
    """The events of a streamed response: from a generator, or written as the outputs of a step come."""

    def __init__(
        self,
        service: Service,
        generation: GenerationRequest,
        formatter: ResponseFormatter,
        *,
        with_usage: bool,
    ) -> None:
        self._service, self._generation, self._formatter = service, generation, formatter
        self._with_usage = with_usage
        self._stream: OutputStream | None = None
        self._writer: DirectWriter | None = None
        self._tokens = 0

    async def generate(self) -> AsyncGenerator[bytes, None]:
        """What was not written directly, then the usage and the end."""
        with self._service.open(self._generation) as stream:
            self._stream = stream
            async for index, delta in stream.deltas():
                if data := self._encode(index, delta):
                    yield data
        end = DONE
        if self._with_usage:
            usage = usage_of(self._generation, stream, self._tokens)
            end = event(self._formatter.usage_chunk(usage).model_dump()) + end
        yield end

    def connect(self, writer: DirectWriter) -> None:
        """Write events as they come from now on, while the client reads them."""
        self._writer = writer
        if self._stream is not None:
            self._stream.write_through(self)

    def write_text(self, index: int, text: str, tokens: int) -> bool:
        """Write the event of text that nothing else comes with; whether it could be."""
        if self._writer is None or not self._writer.is_ready:
            return False
        if (data := self._formatter.plain_event(index, text)) is None:
            return False
        self._tokens += tokens
        self._writer.write(data)
        return True

    def write_delta(self, index: int, delta: OutputDelta) -> bool:
        """Write the events of new output; whether the client is ready for them."""
        if self._writer is None or not self._writer.is_ready:
            return False
        self._writer.write(self._encode(index, delta))
        return True

    def _encode(self, index: int, delta: OutputDelta) -> bytes:
        self._tokens += delta.token_count
        if delta.finish_reason is None:
            data = self._formatter.plain_event(index, delta.text)
            if data is not None:
                return data
        chunks = self._formatter.chunks(index, delta)
        return b"".join([event(chunk.model_dump()) for chunk in chunks])


def usage_of(generation: GenerationRequest, stream: OutputStream, tokens: int) -> Usage:
    """The token counts of a request."""
    # A prompt counts once, by its first choice; the others find all of it in the prefix cache.
    cached = sum(stream.cached_tokens[:: generation.choices_per_prompt])
    return Usage.of(generation.prompt_tokens, tokens, cached)
