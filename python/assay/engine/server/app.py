"""The FastAPI application: its routes, limits and lifespan."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

from fastapi import Depends, FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST

from assay import __version__
from assay.engine.core.admission import QueueLimits
from assay.engine.core.device_sharing import DeviceSharing
from assay.engine.core.worker import Place, SteppedEngine
from assay.engine.server import audio, errors, response_schemas
from assay.engine.server.access_log import AccessLog
from assay.engine.server.administration import add_adapter_routes, add_sleep_routes
from assay.engine.server.chat import chat
from assay.engine.server.completions import complete
from assay.engine.server.embeddings import embeddings
from assay.engine.server.guards import Guards, check_key
from assay.engine.server.model_host import HostedModel, ModelHost
from assay.engine.server.request_schemas import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    EmbeddingRequest,
    TokenizeRequest,
)
from assay.engine.server.rerank import add_rerank_routes
from assay.engine.server.responses_api import respond_to
from assay.engine.server.responses_schemas import ResponseObject, ResponsesRequest
from assay.engine.server.served_model import ServedModel
from assay.engine.server.services import ReadShares, Services, from_request
from assay.engine.server.speech import add_speech_routes
from assay.engine.server.speech_cards import speech_cards
from assay.engine.server.tokenizing import detokenize, tokenize


@dataclass(frozen=True)
class Limits:
    """Limits of the server."""

    requests: int | None = None
    """Running and waiting requests at once, beyond which the server responds with status 429; by
    default as many as the host's open files and memory allow (`QueueLimits.of_host`)."""
    body_bytes: int = 1 << 20
    """Maximum bytes of a request body."""


class Profiler(Protocol):
    """Captures a trace of the engine while it serves."""

    def start(self) -> str:
        """Begin a trace; returns where it will be stored."""

    def stop(self) -> str:
        """End the trace and store it; returns where."""


_ERROR_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": errors.ErrorResponse} for status in (400, 401, 404, 413, 429, 500, 503)
}
_STREAM: Final[dict[str, Any]] = {"text/event-stream": {"schema": {"type": "string"}}}


def create_app(
    engine: SteppedEngine,
    model: ServedModel,
    *,
    adapters: Sequence[str] = (),
    others: Sequence[HostedModel] = (),
    place: Place | None = None,
    sharing: DeviceSharing | None = None,
    api_key: str | None = None,
    limits: Limits | None = None,
    profiler: Profiler | None = None,
    allowed_origins: Sequence[str] = (),
    adapter_folder: Path | None = None,
    sleep_mode: bool = False,
    transcription_model: str | None = None,
) -> FastAPI:
    """An application that serves a model; it owns the engine and closes it on shutdown.

    It serves the engine's LoRA `adapters` and `others` beside it: requests choose by name. Engines that share a
    device have a `place` there, and `sharing` tells how they do. With a `profiler` clients can
    capture traces, by `/start_profile` and `/stop_profile`. Pages of `allowed_origins` may read
    responses (CORS). Clients may load LoRA adapters from below `adapter_folder`, and put models to
    sleep in `sleep_mode`. Recordings are transcribed by `transcription_model`.
    """
    return application(
        (HostedModel(engine, model, place, adapters), *others),
        shares=None if sharing is None else sharing.statistics,
        api_key=api_key,
        limits=limits,
        profiler=profiler,
        allowed_origins=allowed_origins,
        adapter_folder=adapter_folder,
        sleep_mode=sleep_mode,
        transcription_model=transcription_model,
    )


def application(
    hosts: Sequence[ModelHost],
    *,
    link: AbstractAsyncContextManager[object] | None = None,
    shares: ReadShares | None = None,
    api_key: str | None = None,
    limits: Limits | None = None,
    profiler: Profiler | None = None,
    allowed_origins: Sequence[str] = (),
    adapter_folder: Path | None = None,
    sleep_mode: bool = False,
    transcription_model: str | None = None,
) -> FastAPI:
    """An application over models whose engines run wherever their hosts say; see `create_app`.

    `link` is open while they are served.
    """
    if api_key is not None:
        check_key(api_key)
    limits = limits or Limits()
    created = int(time.time())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with link or nullcontext():
            services = Services(hosts, limits=QueueLimits.of_host(limits.requests), shares=shares)
            app.state.services = services
            try:
                yield
            finally:
                await services.close()

    # FastAPI's documentation pages would load scripts from other hosts.
    app = FastAPI(
        title="Assay", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    # Recordings are larger than requests of text.
    larger = {} if transcription_model is None else dict.fromkeys(audio.PATHS, audio.BODY_BYTES)
    app.add_middleware(Guards, api_key=api_key, body_limit=limits.body_bytes, larger_bodies=larger)
    app.add_middleware(AccessLog)
    if allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(allowed_origins),
            allow_methods=["GET", "POST", "OPTIONS"],
            allow_headers=["Authorization", "Content-Type"],
        )
    errors.install(app)

    @app.head("/health", include_in_schema=False)
    @app.get("/health", responses=_ERROR_RESPONSES)
    async def health(services: FromServices) -> dict[str, str]:
        """Whether the server accepts requests."""
        services.check_accepting()
        return {"status": "ok"}

    @app.get("/metrics", responses={200: {"content": {"text/plain": {}}}, **_ERROR_RESPONSES})
    async def metrics_text(services: FromServices) -> Response:
        """Metrics in Prometheus text format."""
        return Response(await services.metrics(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/server_info", responses=_ERROR_RESPONSES)
    async def server_info(services: FromServices) -> response_schemas.ServerInfo:
        """The engine's release, device and settings, as they are now; the first model's."""
        return _server_info(await services.default.async_engine.ask("describe"))

    @app.post("/reset_prefix_cache", responses=_ERROR_RESPONSES)
    async def reset_prefix_cache(services: FromServices) -> dict[str, str]:
        """Empty the prefix cache: later prompts are computed from their first token on."""
        await services.reset_prefix_caches()
        return {"status": "ok"}

    @app.get("/v1/models", responses=_ERROR_RESPONSES)
    async def models(services: FromServices) -> response_schemas.Models:
        """The served models, those of speech last."""
        cards = [_model_card(one.model) for one in services.all]
        return response_schemas.Models(data=[*cards, *speech_cards(transcription_model, created)])

    @app.get("/v1/models/{name:path}", responses=_ERROR_RESPONSES)
    async def model_by_name(name: str, services: FromServices) -> response_schemas.Model:
        """A served model, by its name."""
        spoken = {card.id: card for card in speech_cards(transcription_model, created)}
        return spoken.get(name) or _model_card(services.named(name).model)

    @app.post(
        "/v1/completions",
        response_model=response_schemas.Completion,
        responses={200: {"content": _STREAM}, **_ERROR_RESPONSES},
    )
    async def completions(
        body: CompletionRequest, request: Request, services: FromServices
    ) -> Response:
        """Complete prompts."""
        return await complete(services.named(body.model), body, request)

    @app.post(
        "/v1/chat/completions",
        response_model=response_schemas.ChatCompletion,
        responses={200: {"content": _STREAM}, **_ERROR_RESPONSES},
    )
    async def chat_completions(
        body: ChatRequest, request: Request, services: FromServices
    ) -> Response:
        """Complete a conversation."""
        return await chat(services.named(body.model), body, request)

    @app.post(
        "/v1/responses",
        response_model=ResponseObject,
        responses={200: {"content": _STREAM}, **_ERROR_RESPONSES},
    )
    async def responses(
        body: ResponsesRequest, request: Request, services: FromServices
    ) -> Response:
        """Respond to a conversation; nothing is stored."""
        return await respond_to(services.named(body.model), body, request)

    @app.post("/v1/embeddings", responses=_ERROR_RESPONSES)
    async def embed(body: EmbeddingRequest, services: FromServices) -> response_schemas.Embeddings:
        """Embed texts."""
        return await embeddings(services.named(body.model), body)

    @app.post("/tokenize", responses=_ERROR_RESPONSES)
    async def tokens(body: TokenizeRequest, services: FromServices) -> response_schemas.Tokens:
        """The tokens of a prompt or conversation."""
        return await tokenize(services.named(body.model), body)

    @app.get("/tokenizer_info", responses=_ERROR_RESPONSES)
    async def tokenizer_info(services: FromServices) -> response_schemas.TokenizerInfo:
        """The special tokens and the chat template, which evaluation harnesses ask for."""
        served = services.default.model
        return response_schemas.TokenizerInfo(
            bos_token=served.special_names.get("bos_token"),
            eos_token=served.special_names.get("eos_token"),
            chat_template=served.chat_template,
        )

    @app.post("/detokenize", responses=_ERROR_RESPONSES)
    async def text(
        body: DetokenizeRequest, services: FromServices
    ) -> response_schemas.DetokenizedPrompt:
        """The text of tokens."""
        return await detokenize(services.named(body.model), body)

    add_rerank_routes(app, _ERROR_RESPONSES)
    if transcription_model is not None:
        audio.add_audio_routes(app, transcription_model, _ERROR_RESPONSES)
    add_speech_routes(app, _ERROR_RESPONSES)
    if adapter_folder is not None:
        add_adapter_routes(app, adapter_folder, _ERROR_RESPONSES)
    if sleep_mode:
        add_sleep_routes(app, _ERROR_RESPONSES)
    if profiler is not None:

        @app.post("/start_profile", responses=_ERROR_RESPONSES)
        async def start_profile() -> dict[str, str]:
            """Begin a trace of every step."""
            return {"trace": await asyncio.to_thread(profiler.start)}

        @app.post("/stop_profile", responses=_ERROR_RESPONSES)
        async def stop_profile() -> dict[str, str]:
            """End the trace and store it."""
            return {"trace": await asyncio.to_thread(profiler.stop)}

    return app


FromServices = Annotated[Services, Depends(from_request)]


def _server_info(facts: Mapping[str, Any]) -> response_schemas.ServerInfo:
    return response_schemas.ServerInfo(
        release=__version__,
        model=facts["model"],
        weights=facts["weights"],
        weight_format=facts["weight_format"],
        device=facts["device"],
        synthetic=facts["synthetic"],
        settings=facts["settings"],
    )


def _model_card(model: ServedModel) -> response_schemas.Model:
    return response_schemas.Model(
        id=model.name, created=model.created, max_model_len=model.context_limit, parent=model.parent
    )
