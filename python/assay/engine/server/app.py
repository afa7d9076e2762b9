"""The routes, and what they stand on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST

from assay.engine.server import errors, response_schemas
from assay.engine.server.async_engine import Frontend
from assay.engine.server.chat import chat
from assay.engine.server.completions import complete
from assay.engine.server.guards import Guards
from assay.engine.server.metrics import Metrics
from assay.engine.server.request_schemas import ChatRequest, CompletionRequest
from assay.engine.server.service import ServedModel, Service
from assay.engine.server.worker import SteppedEngine


@dataclass(frozen=True)
class Limits:
    """How much the server takes on."""

    requests: int = 1024
    """Answers under way at once, waiting ones included; beyond it clients are told to come back."""
    body_bytes: int = 1 << 20
    """Bytes of one request."""


_REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": errors.ErrorAnswer} for status in (400, 401, 404, 413, 429, 500, 503)
}
_STREAM: Final[dict[str, Any]] = {"text/event-stream": {"schema": {"type": "string"}}}


def create_app(
    engine: SteppedEngine,
    model: ServedModel,
    *,
    api_key: str | None = None,
    limits: Limits | None = None,
) -> FastAPI:
    """An application that serves one model; it owns the engine and closes it at the end."""
    limits = limits or Limits()
    metrics = Metrics(model.name)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        frontend = Frontend(engine, metrics, limit=limits.requests)
        app.state.service = Service(model, frontend)
        try:
            yield
        finally:
            await asyncio.to_thread(frontend.worker.close)

    # Its pages of documentation would load scripts from elsewhere.
    app = FastAPI(title="Assay", docs_url=None, redoc_url=None, lifespan=lifespan)
    app.add_middleware(Guards, api_key=api_key, body_limit=limits.body_bytes)
    errors.install(app)

    @app.get("/health", responses=_REFUSALS)
    async def health(service: FromService) -> dict[str, str]:
        """Whether requests are let in."""
        if refusing := service.frontend.worker.refusing:
            raise refusing
        return {"status": "ok"}

    @app.get("/metrics", responses={200: {"content": {"text/plain": {}}}, **_REFUSALS})
    async def metrics_text(service: FromService) -> Response:
        """Figures for Prometheus."""
        statistics = await asyncio.wrap_future(service.frontend.worker.call(engine.statistics))
        return Response(metrics.text(statistics), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/models", responses=_REFUSALS)
    async def models(service: FromService) -> response_schemas.Models:
        """The model that is served."""
        return response_schemas.Models(data=[_described(service.model)])

    @app.get("/v1/models/{name:path}", responses=_REFUSALS)
    async def model_by_name(name: str, service: FromService) -> response_schemas.Model:
        """The model that is served, by its name."""
        service.check_model(name)
        return _described(service.model)

    @app.post(
        "/v1/completions",
        response_model=response_schemas.Completion,
        responses={200: {"content": _STREAM}, **_REFUSALS},
    )
    async def completions(
        body: CompletionRequest, request: Request, service: FromService
    ) -> Response:
        """Continue prompts."""
        return await complete(service, body, request)

    @app.post(
        "/v1/chat/completions",
        response_model=response_schemas.ChatCompletion,
        responses={200: {"content": _STREAM}, **_REFUSALS},
    )
    async def chat_completions(
        body: ChatRequest, request: Request, service: FromService
    ) -> Response:
        """Answer a conversation."""
        return await chat(service, body, request)

    return app


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


FromService = Annotated[Service, Depends(_service)]


def _described(model: ServedModel) -> response_schemas.Model:
    return response_schemas.Model(
        id=model.name, created=model.created, max_model_len=model.context_limit
    )
