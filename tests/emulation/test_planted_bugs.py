"""Bugs planted in copies of the kernels are found: each kind that the emulation claims to find."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from emulator import Changes, Kernel, KernelError, from_bf16, random_bf16
from host_sources import UnsupportedKernelError, host_source

from kernel_variants import FLOAT16

INPUTS, OUTPUTS, SLICE_K, STAGES, WARPS = 512, 44, 128, 2, 4


def gemv_error(changes: Changes, *, backward: bool = False) -> float:
    """The largest error of a GEMV over the largest value; infinite where results are NaN."""
    kernel = Kernel(
        "gemv.cu", changes, ELEMENT="bf16", OUTPUT="float", WEIGHT_FORMAT=FLOAT16, GROUP_SIZE=0,
        INPUTS=INPUTS, MAX_ROWS=1, ROWS_PER_CTA=8, THREADS=64, CHUNKS_PER_THREAD=1, CTAS_PER_SM=1,
    )  # fmt: skip
    weights, x = random_bf16(1, OUTPUTS, INPUTS), random_bf16(2, 1, INPUTS)
    out = np.full((1, OUTPUTS), np.nan, np.float32)
    kernel(
        2, 64, weights, None, x, None, None, None, out, 1, OUTPUTS, 0.0, late=[x], backward=backward
    )
    return relative_error(out, from_bf16(x) @ from_bf16(weights).T)


def small_m_error(changes: Changes, *, early_copies: bool = False) -> float:
    """The same of a small-M GEMM."""
    kernel = Kernel(
        "small_m_gemm.cu", changes, ELEMENT="bf16", OUTPUT="float", M_TILES=1, INPUTS=2 * INPUTS,
        SLICE_K=SLICE_K, SLICES_PER_PASS=2, STAGES=STAGES, MAX_TILES=2, WARPS=WARPS, CTAS_PER_SM=1,
    )  # fmt: skip
    weights, x = random_bf16(3, OUTPUTS, 2 * INPUTS), random_bf16(4, 8, 2 * INPUTS)
    out = np.full((8, OUTPUTS), np.nan, np.float32)
    kernel(
        2, WARPS * 32, weights, x, None, None, None, out, 8, OUTPUTS, 0.0, late=[x],
        shared=WARPS * STAGES * 16 * (2 * SLICE_K + 64), early_copies=early_copies,
    )  # fmt: skip
    return relative_error(out, from_bf16(x) @ from_bf16(weights).T)


def relative_error(got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> float:
    error = np.abs(got - expected).max() / np.abs(expected).max()
    return float(np.inf if np.isnan(error) else error)


TOLERANCE = 1e-5


def test_kernels_without_a_bug_are_right() -> None:
    assert gemv_error(()) < TOLERANCE
    assert small_m_error(()) < TOLERANCE
    assert small_m_error((), early_copies=True) < TOLERANCE


def test_a_missing_barrier_shows_in_one_order_of_threads() -> None:
    store = "        epilogue.store("
    bug = (("gemv.cu", f"        __syncthreads();\n{store}", store),)
    assert max(gemv_error(bug, backward=backward) for backward in (False, True)) > TOLERANCE


def test_input_that_is_read_before_the_dependency_resolves_is_poison() -> None:
    wait = "    wait_on_dependency();\n\n    XFragments fragments[CHUNKS_PER_THREAD];"
    bug = (("gemv.cu", wait, wait.replace("    wait_on_dependency();\n", "")),)
    assert gemv_error(bug) > TOLERANCE


def test_a_copy_that_nobody_waits_for_shows_when_it_is_late() -> None:
    bug = (("small_m_gemm.cu", "cp_async_wait<STAGES - 1>();", "cp_async_wait<STAGES>();"),)
    assert small_m_error(bug) > TOLERANCE


def test_a_copy_over_data_in_use_shows_when_it_is_early() -> None:
    # A stage too many is in flight: the copy of the next one overwrites the one that is read.
    bug = (("small_m_gemm.cu", "stage < STAGES - 1; stage++)", "stage < STAGES; stage++)"),)
    assert max(small_m_error(bug, early_copies=early) for early in (False, True)) > TOLERANCE


def test_a_store_outside_of_an_array_is_reported() -> None:
    bug = (("gemv_epilogue.cuh", "&& row < rows && output < columns;", "&& row < rows;"),)
    with pytest.raises(KernelError, match="wrote outside of an array"):
        gemv_error(bug)


def test_a_barrier_that_some_threads_never_reach_is_a_deadlock() -> None:
    store = "        epilogue.store("
    some = "        if (lane == 0)\n            __syncthreads();\n        else\n            __syncwarp();\n"
    bug = (("gemv.cu", f"        __syncthreads();\n{store}", some + store),)
    with pytest.raises(KernelError, match="deadlock"):
        gemv_error(bug)


def test_a_misaligned_load_is_reported() -> None:
    bug = (("gemv.cu", "load16_read_only(row + c * THREADS * 16)", "load16_read_only(row + 8)"),)
    with pytest.raises(KernelError, match="misaligned"):
        gemv_error(bug)


def test_shared_memory_is_aligned_as_declared_and_no_more() -> None:
    declared = "__shared__ alignas(16) float warp_partials"
    bug = (("small_m_gemm.cu", declared, "__shared__ float warp_partials"),)
    with pytest.raises(KernelError, match="misaligned access"):
        small_m_error(bug)


@pytest.mark.parametrize(
    ("text", "kept", "dropped"),
    [
        ("DEVICE int f() { asm(\"x;\"); }\nDEVICE int g() { return 1; }\n", "g()", "f()"),
        ("// asm\nDEVICE int f() { return 1; }\n", "f()", "nothing"),
        ('#define M(T) \\\n    void m(T) { asm("x;"); }\nM(int)\nint h;\n', "int h;", "M(int)"),
        ('int i;\n\n#define M(T) void m(T) { asm("x;"); }\nM(int)\n', "int i;", "M(int)"),
    ],
)  # fmt: skip
def test_functions_of_inline_ptx_are_left_out(text: str, kept: str, dropped: str) -> None:
    found = host_source("file.cuh", text)
    assert kept in found
    assert dropped not in found


def test_a_kernel_with_inline_ptx_is_refused() -> None:
    with pytest.raises(
        UnsupportedKernelError, match=r"k\.cu: expected a kernel without inline PTX"
    ):
        host_source("k.cu", 'KERNEL k() { asm("x;"); }\n')
