"""Kernels of kernels/ as functions of NumPy arrays: compiled by the host's C++ compiler, run thread by thread."""

import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import host_sources
import numpy as np
import numpy.typing as npt
import pytest

COMPILER = shutil.which("g++")
GUARD = 8192
"""Bytes before and behind every array, which no kernel may write. Stores beyond them damage this process, so they
are wider than what the planted bug writes."""
MOST_SHARED = 232_448
"""Bytes of shared memory that a CTA may ask for on Hopper, and that device.h has."""
GUARDED = 0x7FFF
"""What guards hold: NaN in every format, and other bits than the poison of shared memory, which is 0xFF."""

_KERNELS = re.compile(r"^KERNEL (?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(", re.MULTILINE)

Argument = npt.NDArray[Any] | int | float | np.int64 | bytes | None
"""Bytes are a structure that is passed by value."""
Changes = tuple[tuple[str, str, str], ...]
"""File, text, and what stands there instead."""

if COMPILER is None:
    pytest.skip("emulation: expected a C++ compiler g++, got none", allow_module_level=True)


class KernelError(Exception):
    """What a kernel did wrong: a deadlock, a misaligned access, a wrong address."""


class _Launch(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("threads", ctypes.c_uint),
        ("shared_bytes", ctypes.c_uint),
        ("cluster", ctypes.c_uint),
        ("backward", ctypes.c_int),
        ("alternating", ctypes.c_int),
        ("early_copies", ctypes.c_int),
        ("late", ctypes.c_uint),
        ("late_data", ctypes.POINTER(ctypes.c_void_p)),
        ("late_bytes", ctypes.POINTER(ctypes.c_uint64)),
    )


@functools.cache
def _folder(changes: Changes) -> Path:
    folder = Path(_workspace().name) / str(abs(hash(changes)))
    folder.mkdir()
    host_sources.write(folder, {file: (old, new) for file, old, new in changes})
    return folder


@functools.cache
def _workspace() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="emulation")


@functools.cache
def _compiled(
    name: str, entry: str | None, options: tuple[tuple[str, object], ...], changes: Changes
) -> Any:
    folder = _folder(changes)
    text = (folder / name).read_text()
    if (found := _KERNELS.search(text)) is None:
        raise host_sources.UnsupportedKernelError(text)
    kernel = entry or found[1]
    stem = f"{name}-{kernel}-{abs(hash(options))}"
    (folder / f"{stem}.cpp").write_text(
        # Without linkage, variables in shared memory of inline functions and of kernels share a section.
        f'#include "device.h"\nnamespace {{\n#include "{name}"\n}}\n'
        'extern "C" const char* launch(const emulated::Launch* launch, void** values, unsigned count)'
        f" {{\n    return emulated::launch_kernel({kernel}, *launch, values, count);\n}}\n"
    )
    library = folder / f"{stem}.so"
    command = [
        str(COMPILER), "-std=c++17", "-O0", "-w", "-shared", "-fPIC", "-ffp-contract=off",
        "-fsanitize=alignment",
        "-U_FORTIFY_SOURCE", f"-I{folder}", *(f"-D{key}={value}" for key, value in options),
        str(folder / f"{stem}.cpp"), "-o", str(library),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    launch = ctypes.CDLL(str(library)).launch
    launch.restype = ctypes.c_char_p
    return launch


class _Guarded:
    """A copy of an array between guards, aligned as device memory is."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        assert array.flags.c_contiguous
        self.array = array
        raw = np.full((array.nbytes + 1) // 2 + GUARD + 128, GUARDED, np.uint16).view(np.uint8)
        begin = -raw.ctypes.data % 256 + GUARD
        self.raw, self.begin, self.end = raw, begin, begin + array.nbytes
        self.guards = raw[:begin].copy(), raw[self.end :].copy()
        raw[begin : self.end] = array.reshape(-1).view(np.uint8)
        self.address = raw.ctypes.data + begin

    def finish(self, name: str) -> None:
        outside = self.raw[: self.begin], self.raw[self.end :]
        if not all(map(np.array_equal, outside, self.guards)):
            raise KernelError(f"{name}: wrote outside of an array of {self.array.nbytes} bytes")
        if self.array.flags.writeable:
            self.array.reshape(-1).view(np.uint8)[:] = self.raw[self.begin : self.end]


class Kernel:
    """The kernel `entry` of a file, or its first, with its options; `changes` are made to the sources first."""

    def __init__(
        self, name: str, changes: Changes = (), entry: str | None = None, **options: object
    ) -> None:
        self.name = name if entry is None else f"{name} {entry}"
        self._launch = _compiled(name, entry, tuple(sorted(options.items())), changes)

    def __call__(
        self,
        grid: int | tuple[int, ...],
        threads: int,
        *arguments: Argument,
        shared: int = 0,
        cluster: int = 1,
        late: Sequence[npt.NDArray[Any]] = (),
        backward: bool = False,
        alternating: bool = False,
        early_copies: bool = False,
    ) -> None:
        """Run all CTAs, and write what the kernel wrote to the arrays.

        The arrays of `late` are those that the preceding kernel writes: they hold NaN until the
        kernel waits for it. `backward` starts with the last thread,
        `alternating` in every other CTA only; with `early_copies` cp.async
        copies at once, else as late as its wait allows.
        """
        assert threads % 32 == 0
        assert shared <= MOST_SHARED, f"{shared} bytes of shared memory: no GPU has them"
        guarded = {id(one): _Guarded(one) for one in arguments if isinstance(one, np.ndarray)}
        values = [self._value(one, guarded) for one in arguments]
        pointers = (ctypes.c_void_p * len(values))(
            *[ctypes.cast(ctypes.pointer(one), ctypes.c_void_p) for one in values]
        )
        extents = (grid,) if isinstance(grid, int) else grid
        poisoned = [guarded[id(one)] for one in late]
        launch = _Launch(
            (ctypes.c_uint * 3)(*extents, *[1] * (3 - len(extents))),
            threads,
            shared,
            cluster,
            backward,
            alternating,
            early_copies,
            len(poisoned),
            (ctypes.c_void_p * len(poisoned))(*[one.address for one in poisoned]),
            (ctypes.c_uint64 * len(poisoned))(*[one.array.nbytes for one in poisoned]),
        )
        failure = self._launch(ctypes.byref(launch), pointers, len(values))
        if failure:
            raise KernelError(f"{self.name}: {failure.decode()}")
        for one in guarded.values():
            one.finish(self.name)

    @staticmethod
    def _value(argument: Argument, guarded: dict[int, _Guarded]) -> Any:
        if argument is None:
            return ctypes.c_void_p(0)
        if isinstance(argument, np.ndarray):
            return ctypes.c_void_p(guarded[id(argument)].address)
        if isinstance(argument, bytes):
            return ctypes.create_string_buffer(argument, len(argument))
        if isinstance(argument, np.int64):
            return ctypes.c_int64(int(argument))
        return ctypes.c_float(argument) if isinstance(argument, float) else ctypes.c_int(argument)


def to_bf16(values: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """Rounded to bfloat16, to nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(values: npt.NDArray[np.uint16]) -> npt.NDArray[np.float64]:
    """The values of bfloat16 numbers."""
    return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def random_bf16(seed: int, *shape: int, scale: float = 1.0) -> npt.NDArray[np.uint16]:
    """Normal random numbers."""
    return to_bf16(np.random.default_rng(seed).standard_normal(shape) * scale)
