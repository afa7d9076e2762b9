"""The served models by name, each behind its engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.engine.core.device_sharing import DeviceSharing
from assay.engine.core.worker import Place, SteppedEngine
from assay.engine.server.async_engine import AsyncEngine
from assay.engine.server.errors import ApiError
from assay.engine.server.metrics import Families, Metrics, exposition
from assay.engine.server.service import ServedModel, Service


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
                adapted = replace(one.model, name=name, adapter=name, parent=one.model.name)
                self._services[name] = service.of_adapter(adapted)

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

    async def reset_prefix_caches(self) -> None:
        """Empty the prefix cache of every model."""
        for name, service in self._models.items():
            worker = service.async_engine.worker
            await asyncio.wrap_future(worker.call(self._engines[name].reset_prefix_cache))

    def under_way(self) -> int:
        """The number of unfinished requests."""
        return sum(one.async_engine.worker.under_way for one in self._models.values())

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
