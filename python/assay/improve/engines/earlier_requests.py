"""Windows that find nothing of an earlier one in the prefix cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from assay.http_client import ServerError
from assay.improve.engines.adapter import Adapter
from assay.load.workloads.workload import Window, Workload
from assay.openai_api.address import ServerAddress
from assay.openai_api.exchange import exchange


@dataclass(slots=True)
class EarlierRequests:
    """What a server was asked since it started, and how it forgets that."""

    address: ServerAddress
    adapter: Adapter
    note: Callable[[str], None]
    _asked: set[int] = field(default_factory=set, init=False)

    def forget(self) -> None:
        """The server has started anew."""
        self._asked.clear()

    def forgotten(
        self, workload: Workload, window: Window, restart: Callable[[], None] | None
    ) -> Workload:
        """The workload, sure not to find what an earlier window of the same requests left behind.

        `restart` starts the server anew; None where it cannot be.
        """
        if self.adapter.reset:
            try:
                exchange(self.address, self.adapter.reset, method="POST", timeout_s=60.0)
                return workload
            except ServerError as error:
                self.note(f"the prefix cache was not emptied: {error.message}")
        if "prefix-cache" not in self.adapter.capabilities:
            return workload
        if self.adapter.uncached and not any(
            request.prefix_tokens for request in workload.requests
        ):
            # Nothing is shared inside a window either: the cache would only hold earlier windows.
            return _with_fields(workload, self.adapter.uncached)
        asked = _numbers(workload, window)
        if asked & self._asked:
            if restart is None:
                self.note("requests repeat, and the server may find them in its prefix cache")
            else:
                restart()
        self._asked |= asked
        return workload


def _numbers(workload: Workload, window: Window) -> set[int]:
    """Which requests of a workload a window may ask for; all where only its time is limited."""
    count = len(workload.requests)
    if window.requests is None or window.requests >= count:
        return set(range(count))
    return {(window.offset + at) % count for at in range(window.requests)}


def _with_fields(workload: Workload, fields: Mapping[str, Any]) -> Workload:
    requests = (
        replace(request, sampling={**request.sampling, **fields}) for request in workload.requests
    )
    return replace(workload, requests=tuple(requests))
