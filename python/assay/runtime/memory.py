"""Tenants with memory quotas, reservations, pinned buffers and memory reports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from assay._native import Buffer, Context, NativeReservation
from assay.errors import InputError, ShapeError
from assay.runtime.context_stack import ContextStack
from assay.runtime.layout import Layout

_PACKAGE: Final = str(Path(__file__).parent.parent)


class MemoryDevice(Protocol):
    """A device as its tenants and pinned buffers use it; `Device` is one."""

    @property
    def _context(self) -> Context: ...
    def copy(
        self,
        label: str,
        source: Buffer,
        source_offset: int,
        destination: Buffer,
        destination_offset: int,
        nbytes: int,
    ) -> None:
        """Copy between two buffers on the current stream."""


class DeviceArray(Protocol):
    """An array as pinned buffers copy it; `Array` is one."""

    @property
    def device(self) -> MemoryDevice:
        """The device that holds it."""

    @property
    def buffer(self) -> Buffer:
        """Its memory."""

    @property
    def dtype(self) -> Any:
        """The type of its elements."""

    @property
    def layout(self) -> Layout:
        """Shape, strides and offset."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""


class TenantUsage(NamedTuple):
    """A tenant's limit, current and peak use, and reservation, in bytes."""

    name: str
    limit_bytes: int
    used_bytes: int
    peak_bytes: int
    reserved_bytes: int


def unsigned(operation: str, name: str, value: object) -> int:
    """A count of bytes or units as the native runtime takes it; anything else is refused."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise InputError(
            f"{operation}: expected {name} as an integer from 0 to 2**64 - 1, got {value!r}"
        )
    return value


class Tenant(ContextStack):
    """An account with a memory quota; `Device.tenant` creates one.

    Arrays created inside `with tenant:` are charged to it.
    """

    def __init__(self, device: MemoryDevice, name: str, limit: int) -> None:
        """Open an account on a device."""
        self.device: Final = device
        self.name: Final = name
        self.number: Final = device._context.memory.add_tenant(
            name, unsigned("tenant", "limit", limit)
        )

    @property
    def limit(self) -> int:
        """The most bytes it may use; memory above a lowered limit stays allocated."""
        return self.usage().limit_bytes

    @limit.setter
    def limit(self, limit: int) -> None:
        self.device._context.memory.set_tenant_limit(
            self.number, unsigned("tenant", "limit", limit)
        )

    def usage(self) -> TenantUsage:
        """Its limit, current and peak use, and reservation."""
        return TenantUsage(*self.device._context.memory.tenant_usage(self.number))

    def reserve(self, nbytes: int) -> Reservation:
        """Reserve memory that no other tenant can use until the reservation is released."""
        nbytes = unsigned("reserve", "nbytes", nbytes)
        return Reservation(self.device._context.memory.reserve(self.number, nbytes))

    def __repr__(self) -> str:
        return f"Tenant({self.device}, {self.name})"


def current_tenant(device: MemoryDevice) -> Tenant | None:
    """The tenant that allocations are charged to."""
    for tenant in reversed(Tenant.active()):
        if tenant.device is device:
            return tenant
    return None


def call_site() -> tuple[str, int] | None:
    """File and line of the innermost caller outside this package."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        back = frame.f_back
        if back is None:
            return None
        frame = back
    return frame.f_code.co_filename, frame.f_lineno


class Reservation:
    """Memory reserved for a tenant; leaving `with` releases it."""

    def __init__(self, native: NativeReservation) -> None:
        """Wrap a reservation; `Tenant.reserve` creates one."""
        self._native = native

    @property
    def nbytes(self) -> int:
        """Bytes reserved."""
        return self._native.nbytes

    @property
    def held(self) -> bool:
        """Whether it has not been released."""
        return self._native.held

    def release(self) -> None:
        """Release the reservation."""
        self._native.release()

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


class PinnedBuffer:
    """Host memory that the device copies from and to directly; `Device.pinned` creates one."""

    def __init__(self, device: MemoryDevice, buffer: Buffer) -> None:
        """Wrap pinned memory."""
        self.device: Final = device
        self._buffer: Final = buffer

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self._buffer.nbytes

    def write(self, data: Any, offset: int = 0) -> None:
        """Write the bytes of a contiguous object, after all work that uses the buffer."""
        offset = unsigned("write", "offset", offset)
        self.device._context.memory.write_pinned(self._buffer, offset, data)

    def read(self, nbytes: int | None = None, offset: int = 0) -> bytes:
        """Read bytes, by default all from `offset` on, after all work that uses the buffer."""
        count = self.nbytes - offset if nbytes is None else nbytes
        if count < 0 or offset < 0:
            raise InputError(
                f"read: expected a range within {self.nbytes} bytes, got {count} from {offset}"
            )
        into = bytearray(count)
        self.device._context.memory.read_pinned(self._buffer, offset, into)
        return bytes(into)

    def copy_to(self, array: DeviceArray, offset: int = 0, *, label: str = "copy_to") -> None:
        """Queue a copy into a contiguous array on the current stream."""
        start = _contiguous(array, self.device, "copy_to")
        self.device.copy(label, self._buffer, offset, array.buffer, start, array.nbytes)

    def copy_from(self, array: DeviceArray, offset: int = 0) -> None:
        """Queue a copy of a contiguous array's elements on the current stream."""
        start = _contiguous(array, self.device, "copy_from")
        self.device.copy("copy_from", array.buffer, start, self._buffer, offset, array.nbytes)

    def free(self) -> None:
        """Free the memory now; later use raises."""
        self._buffer.free()

    def __repr__(self) -> str:
        return f"PinnedBuffer({self.device}, {self.nbytes} bytes)"


def _contiguous(array: DeviceArray, device: MemoryDevice, operation: str) -> int:
    if array.device is not device:
        raise InputError(f"{operation}: expected an array on {device}, got one on {array.device}")
    if not array.layout.is_contiguous(array.dtype.itemsize):
        raise ShapeError(
            f"{operation}: expected a contiguous array, got shape {array.layout.shape} with strides "
            f"{array.layout.strides}",
            "copy the array first",
        )
    return array.layout.offset


class OutstandingAllocation(NamedTuple):
    """An allocation not yet freed, and the source line that requested it."""

    serial: int
    nbytes: int
    tenant: int
    stream: int
    file: str
    line: int


class MemoryReport(NamedTuple):
    """A device's memory at one moment; `print` shows it."""

    device: str
    device_bytes: int
    device_free_bytes: int
    pool_capacity_bytes: int
    pool: dict[str, int]
    """counters of the pool, rounding included"""
    asked: dict[str, int]
    """what callers requested, in bytes and allocations"""
    pinned: dict[str, int] | None
    """counters of the pool of pinned host memory, once there is one"""
    evictable: dict[str, int] | None
    """evictable memory on the device and on the host, spills and restores, once there is any"""
    tenants: tuple[TenantUsage, ...]

    def __str__(self) -> str:
        used = self.device_bytes - self.device_free_bytes
        rows: list[tuple[str, int, int | None]] = [
            (f"device {self.device}", used, self.device_bytes),
            ("pool holds", self.pool["held_bytes"], self.pool_capacity_bytes),
            ("allocated", self.pool["allocated_bytes"], self.pool_capacity_bytes),
            ("asked for", self.asked["bytes"], None),
        ]
        if self.pinned is not None:
            rows.append(("pinned on the host", self.pinned["allocated_bytes"], None))
        if self.evictable is not None:
            rows.append(("evictable, here", self.evictable["resident_bytes"], None))
            rows.append(("evictable, spilled", self.evictable["spilled_bytes"], None))
        unlimited = 2**63
        for tenant in self.tenants:
            limit = tenant.limit_bytes if tenant.limit_bytes < unlimited else None
            rows.append((f"tenant {tenant.name}", tenant.used_bytes, limit))
        return "\n".join(
            f"{name:<24}{nbytes:>18,} bytes" + (f" of {limit:,}" if limit is not None else "")
            for name, nbytes, limit in rows
        )
