"""Events in the streams of a device."""

from __future__ import annotations

from assay._native import NativeEvent


class Event:
    """An event in a stream, which other streams and the host can wait for."""

    def __init__(self, native: NativeEvent) -> None:
        """Wrap a native event; `Stream.record` creates one."""
        self._native = native

    def query(self) -> bool:
        """Whether the stream has reached the event."""
        return self._native.query()

    def synchronize(self) -> None:
        """Wait until the stream has reached the event."""
        self._native.synchronize()

    def elapsed_ns(self, earlier: Event) -> int:
        """Nanoseconds of device time since an earlier event; both must have been reached."""
        return self._native.elapsed_ns(earlier._native)
