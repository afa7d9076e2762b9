"""Compiles and launches CUDA C++, with arguments checked against the kernel's declaration."""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final

from assay._native import NativeKernel
from assay.errors import DeviceError, DTypeError, InputError, ShapeError
from assay.jit.signature import Parameter, Signature, read
from assay.runtime import allocation, cuda, numpy_kernels
from assay.runtime.array import Array
from assay.runtime.hardware import Device, Stream

Extents = int | Sequence[int]
Shapes = Mapping[str, Sequence[str | int]]

INTEGER_RANGES: Final = {
    "i32": range(-(2**31), 2**31),
    "u32": range(2**32),
    "i64": range(-(2**63), 2**63),
    "u64": range(2**64),
}
"""The range of each integer parameter type, by its name in a launch."""


class Kernel:
    """A CUDA C++ kernel; `kernel` creates one, and calling it launches it.

    Arguments are arrays for pointers and numbers for scalars. The default `grid` has one thread for
    every element of the largest array.
    """

    def __init__(
        self,
        source: str,
        signature: Signature,
        *,
        cpu: Callable[..., None] | None,
        shapes: Shapes,
        options: Sequence[str],
    ) -> None:
        """Store the source; nothing is compiled yet."""
        self.source: Final = source
        self.signature: Final = signature
        self.name: Final = signature.name
        self.cpu: Final = cpu
        self.shapes: Final = shapes
        self.options: Final = tuple(options)
        self._compiled: weakref.WeakKeyDictionary[Device, NativeKernel] = (
            weakref.WeakKeyDictionary()
        )

    def compile(self, device: Device) -> NativeKernel:
        """Compile for a device, or return the cached kernel."""
        if device not in self._compiled:
            self._compiled[device] = device.compile_kernel(
                self.source,
                self.name,
                name=f"{self.name}.cu",
                options=list(self.options),
                headers=cuda.headers(),
            )
        return self._compiled[device]

    def __call__(
        self,
        *arguments: Any,
        grid: Extents | None = None,
        block: Extents = 256,
        shared_bytes: int = 0,
        stream: Stream | None = None,
    ) -> None:
        """Check the arguments and queue the kernel on `stream`, by default the current one."""
        parameters = self.signature.parameters
        if len(arguments) != len(parameters):
            names = ", ".join(parameter.name for parameter in parameters)
            raise InputError(
                f"{self.name}: expected {len(parameters)} arguments ({names}), got {len(arguments)}"
            )
        pairs = list(zip(parameters, arguments, strict=True))
        arrays = [self._array(parameter, value) for parameter, value in pairs if parameter.pointer]
        numbers = {
            parameter.name: self._number(parameter, value)
            for parameter, value in pairs
            if not parameter.pointer
        }
        self._check_shapes(arrays, numbers)
        device = self._device(arrays, stream)
        threads = _extents(f"{self.name}: block", block)
        largest = max(array.size for _, array in arrays)
        if grid is None and largest == 0:
            return
        blocks = -(-largest // math.prod(threads)) if grid is None else grid
        blocks = _extents(f"{self.name}: grid", blocks)
        if not device.capabilities.supports_jit:
            with stream or nullcontext():
                self._run_on_host(device, [value for _, value in pairs])
            return
        self.compile(device).launch(
            blocks,
            threads,
            shared_bytes,
            [
                (value.buffer, value.offset, value.nbytes, parameter.writes)
                if parameter.pointer
                else (parameter.scalar or "", numbers[parameter.name])
                for parameter, value in pairs
            ],
            (stream or device.current_stream())._native,
            label=self.name,
            bytes=sum(array.nbytes for _, array in arrays),
            flops=0.0,
        )

    def _array(self, parameter: Parameter, value: Any) -> tuple[Parameter, Array]:
        if not isinstance(value, Array):
            raise DTypeError(
                f"{self.name}: expected an array for {parameter.name}, got {type(value).__name__}"
            )
        if parameter.element is not None and value.dtype.name != parameter.element:
            raise DTypeError(
                f"{self.name}: expected {parameter.element} for {parameter.name} "
                f"({parameter.type}*), got {value.dtype}"
            )
        if not value.layout.is_contiguous(value.dtype.itemsize):
            raise ShapeError(
                f"{self.name}: expected {parameter.name} to be C-contiguous, got shape "
                f"{value.shape} with strides {value.strides}",
                "copy it first: xp.asarray(x, copy=True)",
            )
        if parameter.writes:
            allocation.require_writable(value, self.name)
        return parameter, value

    def _number(self, parameter: Parameter, value: Any) -> int | float:
        bounds = INTEGER_RANGES.get(parameter.scalar or "")
        try:
            if bounds is None:
                return _real(value)
            number = operator.index(value)
        except (TypeError, ValueError, OverflowError):
            expected = "a number" if bounds is None else "a whole number"
        else:
            if number in bounds:
                return number
            expected = f"a whole number from {bounds.start} to {bounds.stop - 1}"
        raise DTypeError(
            f"{self.name}: expected {expected} for {parameter.name} ({parameter.type}), got {value!r}"
        )

    def _check_shapes(
        self, arrays: Sequence[tuple[Parameter, Array]], numbers: Mapping[str, int | float]
    ) -> None:
        known: dict[str, int | float] = dict(numbers)
        for parameter, array in arrays:
            shape = self.shapes.get(parameter.name)
            if shape is None:
                continue
            shown = f"({', '.join(map(str, shape))})"
            if len(shape) != array.ndim:
                raise ShapeError(
                    f"{self.name}: expected shape {shown} for {parameter.name}, got {array.shape}"
                )
            for extent, got in zip(shape, array.shape, strict=True):
                expected = known.setdefault(extent, got) if isinstance(extent, str) else extent
                if expected != got:
                    raise ShapeError(
                        f"{self.name}: expected shape {shown} for {parameter.name} with {extent} "
                        f"= {expected}, got {array.shape}"
                    )

    def _device(self, arrays: Sequence[tuple[Parameter, Array]], stream: Stream | None) -> Device:
        if not arrays:
            raise InputError(
                f"{self.name}: expected at least one array, got none",
                "a kernel's results are in arrays, which also say where it runs",
            )
        device = allocation.common_device(self.name, [array for _, array in arrays])
        if stream is not None and stream.device is not device:
            raise DeviceError(
                f"{self.name}: expected a stream of {device}, got one of {stream.device}"
            )
        return device

    def _run_on_host(self, device: Device, values: Sequence[Any]) -> None:
        function = self.cpu
        if function is None:
            missing = cuda.probe().missing
            error = DeviceError(
                f"NVRTC JIT compiler not available on {device}: {self.name} has no cpu= function",
                (missing.hint + "; or " if missing else "") + "give jit.kernel a cpu= function",
            )
            error.code = "no_nvrtc"
            raise error
        reads = [value for value, one in self._pointer_arguments(values) if not one.writes]
        writes = [value for value, one in self._pointer_arguments(values) if one.writes]

        def run(*views: Any) -> None:
            read_views = iter(views[: len(reads)])
            write_views = iter(views[len(reads) :])
            passed = [
                value if not one.pointer else next(write_views) if one.writes else next(read_views)
                for one, value in zip(self.signature.parameters, values, strict=True)
            ]
            function(*passed)

        numpy_kernels.launch(self.name, run, reads, writes)

    def _pointer_arguments(self, values: Sequence[Any]) -> list[tuple[Array, Parameter]]:
        pairs = zip(values, self.signature.parameters, strict=True)
        return [(value, one) for value, one in pairs if one.pointer]

    def __repr__(self) -> str:
        parameters = ", ".join(
            f"{parameter.type}{'*' if parameter.pointer else ''} {parameter.name}"
            for parameter in self.signature.parameters
        )
        return f"Kernel({self.name}({parameters}))"


def _real(value: Any) -> float:
    """Convert to float, rejecting strings."""
    if isinstance(value, str | bytes):
        raise TypeError
    return float(value)


def _extents(what: str, extents: Extents) -> list[int]:
    """The one to three dimensions of a grid or block, padded with ones."""
    listed = [extents] if isinstance(extents, int) else list(extents)
    if not 1 <= len(listed) <= 3 or any(extent < 1 for extent in listed):
        raise InputError(f"{what}: expected one to three extents of at least 1, got {extents!r}")
    return listed + [1] * (3 - len(listed))


def kernel(
    source: str,
    name: str | None = None,
    *,
    cpu: Callable[..., None] | None = None,
    shapes: Shapes | None = None,
    options: Sequence[str] = (),
) -> Kernel:
    """A kernel from CUDA C++ source, compiled when it is first launched.

    `name` selects one kernel of several in the source. `shapes` names the dimensions of arrays by
    parameter: equal names must have equal sizes, and an integer parameter of that name must equal
    the size. `cpu` is called with NumPy views and numbers where the arrays are on `cpu` or `sim`.
    `options` are passed to NVRTC, such as `-DROWS=4`; `prelude.cuh` can be included for bf16, fp16
    and reductions.
    """
    signature = read(source, name)
    pointers = {parameter.name for parameter in signature.parameters if parameter.pointer}
    for array in shapes or {}:
        if array not in pointers:
            raise InputError(
                f'jit.kernel: {signature.name}: expected shapes of pointers, got "{array}"',
                f"one of: {', '.join(sorted(pointers))}" if pointers else None,
            )
    return Kernel(source, signature, cpu=cpu, shapes=dict(shapes or {}), options=options)
