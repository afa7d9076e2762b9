"""Memory as accounts: tenants with quotas, reservations, pinned buffers, reports."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from assay._native import Buffer, NativeReservation
from assay.errors import InputError, ShapeError
from assay.runtime.entering import Entered

if TYPE_CHECKING:
    from assay.runtime.array import Array
    from assay.runtime.hardware import Device

_OWN: Final = str(Path(__file__).parent.parent)


class TenantUsage(NamedTuple):
    """What a tenant may use, uses, used at most, and was promised, in bytes."""

    name: str
    limit_bytes: int
    used_bytes: int
    peak_bytes: int
    reserved_bytes: int


class Tenant(Entered):
    """Someone who is charged for memory and may use only so much; `Device.tenant` makes one.

    Arrays made inside `with tenant:` are charged to it. With `evictable`, they leave the device
    when memory is short, least recently used first, and come back when they are used.
    """

    def __init__(self, device: Device, name: str, limit: int, *, evictable: bool = False) -> None:
        """Open an account on a device."""
        self.device: Final = device
        self.name: Final = name
        self.evictable: Final = evictable
        self.number: Final = device._context.memory.add_tenant(name, limit)

    @property
    def limit(self) -> int:
        """The most bytes it may use; what it has above a lowered limit, it keeps."""
        return self.usage().limit_bytes

    @limit.setter
    def limit(self, limit: int) -> None:
        self.device._context.memory.set_tenant_limit(self.number, limit)

    def usage(self) -> TenantUsage:
        """Its figures now."""
        return TenantUsage(*self.device._context.memory.tenant_usage(self.number))

    def reserve(self, nbytes: int) -> Reservation:
        """Promise it memory that no other tenant can use up, until the reservation is released."""
        return Reservation(self.device._context.memory.reserve(self.number, nbytes))

    def __repr__(self) -> str:
        return f"Tenant({self.device}, {self.name})"


def current_tenant(device: Device) -> Tenant | None:
    """The tenant that is charged here and now."""
    for tenant in reversed(Tenant.entered()):
        if tenant.device is device:
            return tenant
    return None


def call_site() -> tuple[str, int] | None:
    """File and line of the innermost caller outside this package."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        back = frame.f_back
        if back is None:
            return None
        frame = back
    return frame.f_code.co_filename, frame.f_lineno


class Reservation:
    """Memory promised to a tenant; `with` releases it on every path."""

    def __init__(self, native: NativeReservation) -> None:
        """Wrap a promise; `Tenant.reserve` makes one."""
        self._native = native

    @property
    def nbytes(self) -> int:
        """Bytes promised."""
        return self._native.nbytes

    @property
    def held(self) -> bool:
        """Whether the promise still stands."""
        return self._native.held

    def release(self) -> None:
        """Take the promise back."""
        self._native.release()

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class PinnedBuffer:
    """Host memory that the device copies from and to directly; `Device.pinned` makes one."""

    def __init__(self, device: Device, buffer: Buffer) -> None:
        """Wrap pinned memory."""
        self.device: Final = device
        self._buffer: Final = buffer

    @property
    def nbytes(self) -> int:
        """How many bytes it has."""
        return self._buffer.nbytes

    def write(self, data: Any, offset: int = 0) -> None:
        """Write the bytes of a contiguous object, after all work that uses the buffer."""
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

    def copy_to(self, array: Array, offset: int = 0) -> None:
        """Queue a copy into a contiguous array on the current stream."""
        start = _contiguous(array, self.device, "copy_to")
        stream = self.device.current_stream()._native
        self.device._context.copy(
            "copy_to", self._buffer, offset, array.buffer, start, array.nbytes, stream
        )

    def copy_from(self, array: Array, offset: int = 0) -> None:
        """Queue a copy of a contiguous array's elements on the current stream."""
        start = _contiguous(array, self.device, "copy_from")
        stream = self.device.current_stream()._native
        self.device._context.copy(
            "copy_from", array.buffer, start, self._buffer, offset, array.nbytes, stream
        )

    def free(self) -> None:
        """Give the memory back now; later use is an error."""
        self._buffer.free()

    def __repr__(self) -> str:
        return f"PinnedBuffer({self.device}, {self.nbytes} bytes)"


def _contiguous(array: Array, device: Device, operation: str) -> int:
    if array.device is not device:
        raise InputError(f"{operation}: expected an array on {device}, got one on {array.device}")
    if not array.layout.is_contiguous(array.dtype.itemsize):
        raise ShapeError(
            f"{operation}: expected a contiguous array, got shape {array.shape} with strides "
            f"{array.strides}",
            "copy the array first",
        )
    return array.offset


class Outstanding(NamedTuple):
    """An allocation not yet given back, and the line that asked for it."""

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
    """what callers asked for, in bytes and allocations"""
    pinned: dict[str, int] | None
    """counters of the pool of pinned host memory, once there is one"""
    evictable: dict[str, int] | None
    """evictable memory on the device and on the host, spills and restores, once there is any"""
    tenants: tuple[TenantUsage, ...]

    def __str__(self) -> str:
        taken = self.device_bytes - self.device_free_bytes
        rows: list[tuple[str, int, int | None]] = [
            (f"device {self.device}", taken, self.device_bytes),
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
        for one in self.tenants:
            limit = one.limit_bytes if one.limit_bytes < unlimited else None
            rows.append((f"tenant {one.name}", one.used_bytes, limit))
        return "\n".join(
            f"{name:<24}{used:>18,} bytes" + (f" of {most:,}" if most is not None else "")
            for name, used, most in rows
        )
