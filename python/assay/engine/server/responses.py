"""From an order to an HTTP answer, the same for every endpoint: whole, or piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Protocol

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from assay.engine.server.async_engine import Exchange, Piece
from assay.engine.server.request_schemas import Sampling
from assay.engine.server.response_schemas import Usage
from assay.engine.server.service import Order, Service
from assay.engine.server.streaming import DONE, ClientLeftError, EventStream, event, unless_left

CLIENT_CLOSED_REQUEST = 499
"""What web servers log for a client that left; nobody is there to read it."""


class Wording(Protocol):
    """How an endpoint words its answers."""

    def chunks(self, index: int, piece: Piece) -> Iterable[BaseModel]:
        """The events that tell what answer `index` gained."""

    def closing(self, usage: Usage) -> BaseModel:
        """The event that ends a stream with its usage."""

    def whole(self, answers: Sequence[Piece], usage: Usage) -> BaseModel:
        """All answers in one."""


async def respond(
    service: Service, order: Order, wording: Wording, body: Sampling, request: Request
) -> Response:
    """Answer the way the client asked for; if it leaves, so does its order."""
    if body.stream:
        return EventStream(_events(service, order, wording, with_usage=body.wants_usage()))
    try:
        return await unless_left(request.receive, _whole(service, order, wording))
    except ClientLeftError:
        return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _whole(service: Service, order: Order, wording: Wording) -> Response:
    with service.open(order) as exchange:
        answers = await exchange.whole()
    tokens = sum(answer.token_count for answer in answers)
    return JSONResponse(wording.whole(answers, _usage(order, exchange, tokens)).model_dump())


async def _events(
    service: Service, order: Order, wording: Wording, *, with_usage: bool
) -> AsyncGenerator[bytes, None]:
    tokens = 0
    with service.open(order) as exchange:
        async for index, piece in exchange.pieces():
            tokens += piece.token_count
            for chunk in wording.chunks(index, piece):
                yield event(chunk.model_dump())
    if with_usage:
        yield event(wording.closing(_usage(order, exchange, tokens)).model_dump())
    yield DONE


def _usage(order: Order, exchange: Exchange, tokens: int) -> Usage:
    # A prompt counts once, by its first answer; the others find all of it in the cache.
    cached = sum(exchange.cached_tokens[:: order.answers])
    return Usage.of(order.prompt_tokens, tokens, cached)
