"""The served models by name, each behind its engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi import Request

from assay.engine.core.admission import QueueLimits
from assay.engine.core.device_sharing import ShareStatistics
from assay.engine.core.worker import StoppedError
from assay.engine.server.async_engine import AsyncEngine
from assay.engine.server.errors import ApiError
from assay.engine.server.metrics import Families, Metrics, exposition
from assay.engine.server.model_host import ModelHost
from assay.engine.server.service import Service
from assay.errors import InputError

ReadShares = Callable[[], Sequence[ShareStatistics]]
"""What models that share a device got; it may wait."""


class Services:
    """One service for each model; requests choose by name."""

    def __init__(
        self, hosts: Sequence[ModelHost], *, limits: QueueLimits, shares: ReadShares | None
    ) -> None:
        """Start the workers of the engines."""
        self._families = Families()
        self._shares = shares
        self._names = [host.model.name for host in hosts]
        self._services: dict[str, Service] = {}
        for host in hosts:
            metrics = Metrics(host.model.name, self._families)
            engine = AsyncEngine(host, metrics, limits)
            service = self._services[host.model.name] = Service(host.model, engine)
            for name in host.adapters:
                self._serve_adapter(service, name)

    @property
    def all(self) -> Sequence[Service]:
        """Every service, adapters after their models."""
        return list(self._services.values())

    @property
    def _models(self) -> dict[str, Service]:
        """The services that have an engine of their own, by name."""
        return {name: self._services[name] for name in self._names}

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
            if (refusal := service.async_engine.worker.state.refusal) is not None:
                raise StoppedError(refusal)

    async def metrics(self) -> bytes:
        """All metrics in Prometheus text format."""
        statistics = {
            name: await service.async_engine.ask("statistics")
            for name, service in self._models.items()
        }
        shares = () if self._shares is None else await asyncio.to_thread(self._shares)
        return exposition(self._families, statistics, shares)

    async def load_adapter(self, model: str | None, name: str, folder: Path) -> None:
        """Load a LoRA adapter of a model, by default the first, and serve it under its name."""
        base = self._model(model)
        if name in self._services:
            raise ApiError(
                f'the name "{name}" is taken', status=409, param="lora_name", code="name_taken"
            )
        await self._run(base, "load_adapter", name, folder)
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
            await self._run(service, "unload_adapter", name)
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
        return all(service.async_engine.worker.state.asleep for service in self._chosen(model))

    def _chosen(self, model: str | None) -> Sequence[Service]:
        return list(self._models.values()) if model is None else [self._model(model)]

    def _model(self, name: str | None) -> Service:
        """The service of a model that has an engine of its own."""
        service = self.named(name)
        if service.model.parent is not None:
            raise ApiError(f'"{name}" is a LoRA adapter: expected a model', param="model")
        return service

    async def _run(self, service: Service, method: str, *arguments: Any) -> None:
        """Call a method of a model's engine, between steps, unless it sleeps."""
        if (rest := service.async_engine.worker.state.rest) is not None:
            raise StoppedError(rest)
        await service.async_engine.ask(method, *arguments)

    def _serve_adapter(self, base: Service, name: str) -> None:
        model = replace(base.model, name=name, adapter=name, parent=base.model.name)
        self._services[name] = base.of_adapter(model)

    async def reset_prefix_caches(self) -> None:
        """Empty the prefix cache of every model that is awake; one that sleeps has none."""
        for service in self._models.values():
            if service.async_engine.worker.state.rest is None:
                await service.async_engine.ask("reset_prefix_cache")

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
