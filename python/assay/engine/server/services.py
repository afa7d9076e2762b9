"""The served models by name, each behind its engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fastapi import Request

from assay.engine.core.device_sharing import DeviceSharing
from assay.engine.core.worker import Place, SteppedEngine, StoppedError
from assay.engine.server.async_engine import AsyncEngine
from assay.engine.server.errors import ApiError
from assay.engine.server.metrics import Families, Metrics, exposition
from assay.engine.server.service import ServedModel, Service
from assay.errors import InputError


@dataclass(frozen=True)
class HostedModel:
    """A model to serve, its engine, and the engine's place on a shared device."""

    engine: SteppedEngine
    model: ServedModel
    place: Place | None = None
    adapters: Sequence[str] = ()
    """LoRA adapters of the engine, which are served under their names."""


class Services:
    """One service for each model; requests choose by name."""

    def __init__(
        self, hosted: Sequence[HostedModel], *, limit: int, sharing: DeviceSharing | None
    ) -> None:
        """Start the engines, each in a thread of its own."""
        self._families = Families()
        self._sharing = sharing
        self._engines = {one.model.name: one.engine for one in hosted}
        self._services: dict[str, Service] = {}
        for one in hosted:
            metrics = Metrics(one.model.name, self._families)
            engine = AsyncEngine(one.engine, metrics, limit=limit, place=one.place)
            service = self._services[one.model.name] = Service(one.model, engine)
            for name in one.adapters:
                self._serve_adapter(service, name)

    @property
    def all(self) -> Sequence[Service]:
        """Every service, adapters after their models."""
        return list(self._services.values())

    @property
    def _models(self) -> dict[str, Service]:
        """The services that have an engine of their own, by name."""
        return {name: self._services[name] for name in self._engines}

    @property
    def default(self) -> Service:
        """The first model's, for requests that name none."""
        return self.all[0]

    def named(self, name: str | None) -> Service:
        """The service of a model, or the first one's; refuses a model that is not served."""
        if name is None:
            return self.default
        service = self._services.get(name)
        if service is None:
            names = ", ".join(f'"{known}"' for known in self._services)
            verb = "is" if len(self._services) == 1 else "are"
            raise ApiError(
                f'the model "{name}" is not served here; {names} {verb}',
                status=404,
                param="model",
                code="model_not_found",
            )
        return service

    def check_accepting(self) -> None:
        """Raise if an engine accepts no requests."""
        for service in self._models.values():
            if refusing := service.async_engine.worker.refusing:
                raise refusing

    async def metrics(self) -> bytes:
        """All metrics in Prometheus text format."""
        statistics = {}
        for name, service in self._models.items():
            future = service.async_engine.worker.call(self._engines[name].statistics)
            statistics[name] = await asyncio.wrap_future(future)
        shares = () if self._sharing is None else self._sharing.statistics()
        return exposition(self._families, statistics, shares)

    async def load_adapter(self, model: str | None, name: str, folder: Path) -> None:
        """Load a LoRA adapter of a model, by default the first, and serve it under its name."""
        base = self._model(model)
        if name in self._services:
            raise ApiError(
                f'the name "{name}" is taken', status=409, param="lora_name", code="name_taken"
            )
        engine = self._engines[base.model.name]
        await self._run(base, partial(engine.load_adapter, name, folder))
        self._serve_adapter(base, name)

    async def unload_adapter(self, name: str) -> None:
        """Unload a LoRA adapter; later requests do not find it."""
        service = self._services.get(name)
        if service is None or service.model.parent is None:
            raise ApiError(
                f'the LoRA adapter "{name}" is not served here',
                status=404,
                param="lora_name",
                code="model_not_found",
            )
        del self._services[name]
        try:
            engine = self._engines[service.model.parent]
            await self._run(service, partial(engine.unload_adapter, name))
        except BaseException as error:
            self._services[name] = service
            if isinstance(error, InputError):
                raise ApiError(
                    error.message, status=409, param="lora_name", code="in_use"
                ) from None
            raise

    async def sleep(self, model: str | None, seconds: float) -> None:
        """Let a model sleep, or all of them, when its requests have ended or this time has passed."""
        for one in self._chosen(model):
            await asyncio.to_thread(one.async_engine.worker.sleep, seconds)

    async def wake_up(self, model: str | None) -> None:
        """Wake a model up, or all of them."""
        for one in self._chosen(model):
            await asyncio.to_thread(one.async_engine.worker.wake_up)

    def is_sleeping(self, model: str | None) -> bool:
        """Whether a model sleeps, or every model."""
        return all(one.async_engine.worker.asleep for one in self._chosen(model))

    def _chosen(self, model: str | None) -> Sequence[Service]:
        return list(self._models.values()) if model is None else [self._model(model)]

    def _model(self, name: str | None) -> Service:
        """The service of a model that has an engine of its own."""
        service = self.named(name)
        if service.model.parent is not None:
            raise ApiError(f'"{name}" is a LoRA adapter: expected a model', param="model")
        return service

    async def _run(self, service: Service, function: Callable[[], object]) -> None:
        """Run a function of a model's engine in its thread, between steps."""
        if (resting := service.async_engine.worker.resting) is not None:
            raise StoppedError(resting.message)
        await asyncio.wrap_future(service.async_engine.worker.call(function))

    def _serve_adapter(self, base: Service, name: str) -> None:
        model = replace(base.model, name=name, adapter=name, parent=base.model.name)
        self._services[name] = base.of_adapter(model)

    async def reset_prefix_caches(self) -> None:
        """Empty the prefix cache of every model that is awake; one that sleeps has none."""
        for name, service in self._models.items():
            if service.async_engine.worker.resting is not None:
                continue
            worker = service.async_engine.worker
            await asyncio.wrap_future(worker.call(self._engines[name].reset_prefix_cache))

    def under_way(self) -> int:
        """The number of unfinished requests."""
        return sum(model.async_engine.worker.under_way for model in self._models.values())

    async def finish(self, seconds: float) -> int:
        """Accept no more requests, wait this long for the unfinished ones, and close the engines.

        Returns how many were aborted.
        """
        workers = [service.async_engine.worker for service in self._models.values()]
        aborted = await asyncio.gather(
            *(asyncio.to_thread(worker.finish, seconds) for worker in workers)
        )
        return sum(aborted)

    async def close(self) -> None:
        """End everything that was started."""
        for service in self._models.values():
            await asyncio.to_thread(service.close)
            await asyncio.to_thread(service.async_engine.worker.close)


async def from_request(request: Request) -> Services:
    """The services of the application that a request came to."""
    services: Services = request.app.state.services
    return services
