"""XID errors of an NVIDIA GPU, which the driver reports as events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_MOST: Final = 64
"""Events that one read takes at most; a GPU that breaks reports many at once."""


class XidErrors:
    """The last XID error since the recording began; 0 before the first."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._events: Any = None
        self._last = 0

    def read(self) -> Mapping[str, int]:
        """Take the events that came since the last read, without waiting for one."""
        nvml = self._nvml
        if self._events is None:
            events = nvml.nvmlEventSetCreate()
            try:
                nvml.nvmlDeviceRegisterEvents(
                    self._handle, nvml.nvmlEventTypeXidCriticalError, events
                )
            except nvml.NVMLError:
                nvml.nvmlEventSetFree(events)
                raise
            self._events = events
        for _ in range(_MOST):
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError as error:
                if getattr(error, "value", None) == nvml.NVML_ERROR_TIMEOUT:
                    break
                raise
            self._last = int(event.eventData)
        return {"gpu_xid_last": self._last}

    def close(self) -> None:
        """Free the event set."""
        if self._events is not None:
            self._nvml.nvmlEventSetFree(self._events)
            self._events = None
