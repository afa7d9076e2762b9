"""What the namespace can do, for programs that ask."""

from __future__ import annotations

from assay.errors import DTypeError
from assay.runtime import dtypes
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device, device as find_device, devices

MAX_DIMENSIONS = 64
"""NumPy's limit, which its loops share with us."""


class Info:
    """Capabilities, devices and element types of the namespace."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """Which optional parts of the standard there are."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": MAX_DIMENSIONS,
        }

    def default_device(self) -> Device:
        """The device of arrays for which none is named."""
        return find_device()

    def default_dtypes(self, *, device: Device | str | None = None) -> dict[str, DType]:
        """The types of arrays for which none is named."""
        find_device(device)
        return {
            "real floating": dtypes.float64,
            "complex floating": dtypes.complex128,
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(
        self, *, device: Device | str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The standard's types of a kind; float16 and bfloat16 are ours and not listed."""
        find_device(device)
        if kind is None:
            return {dtype.name: dtype for dtype in dtypes.STANDARD}
        wanted = kind if isinstance(kind, tuple) else (kind,)
        for one in wanted:
            if one not in dtypes.KINDS:
                raise DTypeError(
                    f"dtypes: expected a kind, got {one!r}", f"one of: {', '.join(dtypes.KINDS)}"
                )
        kinds = {letter for one in wanted for letter in dtypes.KINDS[one]}
        return {dtype.name: dtype for dtype in dtypes.STANDARD if dtype.kind in kinds}

    def devices(self) -> list[Device]:
        """Every device of this machine."""
        return devices()


def __array_namespace_info__() -> Info:
    """What the namespace can do."""
    return Info()
