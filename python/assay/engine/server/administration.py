"""Paths that change what is served: LoRA adapters that come and go, models that sleep and wake up.

Paths, parameters and bodies are vLLM's, with the name of a model where a server has several.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Query, Request
from fastapi.responses import PlainTextResponse

from assay.engine.server.errors import ApiError
from assay.engine.server.request_schemas import LoadAdapterRequest, UnloadAdapterRequest
from assay.engine.server.response_schemas import SleepState
from assay.engine.server.services import Services, from_request

SLEEP_SECONDS: Final = 60.0
"""Time for the requests under way to finish before a model sleeps."""

_Services = Annotated[Services, Depends(from_request)]
_Model = Annotated[str | None, Query(description="One of several models; all if not given.")]


def add_adapter_routes(app: FastAPI, folder: Path, responses: dict[int | str, Any]) -> None:
    """Let clients load adapters from folders below `folder`, and unload them."""

    @app.post(
        "/v1/load_lora_adapter", response_class=PlainTextResponse, responses={409: {}, **responses}
    )
    async def load_lora_adapter(body: LoadAdapterRequest, services: _Services) -> str:
        """Load a LoRA adapter; requests choose it by its name."""
        path = _below(folder, body.lora_path)
        await services.load_adapter(body.base_model_name, body.lora_name, path)
        return f"Success: LoRA adapter '{body.lora_name}' added successfully."

    @app.post(
        "/v1/unload_lora_adapter",
        response_class=PlainTextResponse,
        responses={409: {}, **responses},
    )
    async def unload_lora_adapter(body: UnloadAdapterRequest, services: _Services) -> str:
        """Unload a LoRA adapter that no request uses."""
        await services.unload_adapter(body.lora_name)
        return f"Success: LoRA adapter '{body.lora_name}' removed successfully."


def add_sleep_routes(app: FastAPI, responses: dict[int | str, Any]) -> None:
    """Let clients put models to sleep and wake them up."""

    @app.post("/sleep", responses=responses)
    async def sleep(
        services: _Services,
        request: Request,
        level: Annotated[int, Query(description="1: weights move to host memory.")] = 1,
        model: _Model = None,
    ) -> SleepState:
        """Move weights to host memory and free the KV cache, once the requests under way have ended."""
        _refuse_others(request, {"level", "model"})
        if level != 1:
            raise ApiError(
                f"level: expected 1, which keeps the weights in host memory, got {level}",
                param="level",
            )
        await services.sleep(model, SLEEP_SECONDS)
        return SleepState(is_sleeping=services.is_sleeping(model))

    @app.post("/wake_up", responses=responses)
    async def wake_up(services: _Services, request: Request, model: _Model = None) -> SleepState:
        """Move weights back to the device; requests are accepted again."""
        _refuse_others(request, {"model"})
        await services.wake_up(model)
        return SleepState(is_sleeping=services.is_sleeping(model))

    @app.get("/is_sleeping", responses=responses)
    async def is_sleeping(services: _Services, model: _Model = None) -> SleepState:
        """Whether a model, or every model, sleeps."""
        return SleepState(is_sleeping=services.is_sleeping(model))


def _below(folder: Path, given: str) -> Path:
    """A path of a client, which must lie below the folder of adapters."""
    if "\0" not in given:
        path = (folder / given).resolve()
        if path.is_relative_to(folder.resolve()) and path != folder.resolve():
            return path
    raise ApiError(
        "lora_path: expected a folder below that of --lora-folder, got another path",
        param="lora_path",
    )


def _refuse_others(request: Request, known: set[str]) -> None:
    """Refuse parameters that would change what happens, such as vLLM's tags."""
    if unknown := sorted(set(request.query_params) - known):
        raise ApiError(
            f"{unknown[0]}: this server does not support it",
            param=unknown[0],
            code="unsupported_parameter",
        )
