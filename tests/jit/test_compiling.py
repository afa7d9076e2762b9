"""NVRTC from its wheel, without a GPU: errors with line and caret."""

import pytest

from assay.errors import CompileError, DeviceError
from assay.runtime import cuda


def compile(text: str, architecture: str = "sm_90a", *options: str) -> bytes:
    return cuda.compile(text, architecture, "k.cu", options)


def test_nvrtc_is_found_in_its_wheel() -> None:
    found = cuda.probe().compiler
    assert found.missing is None, "the extra dev brings nvidia-cuda-nvrtc"
    assert found.version is not None
    assert found.version[0] in (12, 13)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_120"])
def test_prelude_can_be_included(architecture: str) -> None:
    source = """
    #include "prelude.cuh"
    KERNEL widen(const bf16* x, float* out) { out[threadIdx.x] = to_float(x[threadIdx.x]); }
    """
    assert compile(source, architecture).startswith(b"\x7fELF")


def test_errors_show_the_source_line_and_a_caret() -> None:
    source = "__global__ void f(float* a) {\n    a[0] = nowhere + 1;\n    nothing;\n}\n"
    with pytest.raises(CompileError) as caught:
        compile(source)
    first, line, caret = caught.value.message.splitlines()
    assert first == 'k.cu:2: error: identifier "nowhere" is undefined'
    assert line.strip() == "a[0] = nowhere + 1;"
    assert caret.index("^") == line.index("nowhere")
    assert caught.value.hint == "2 errors in all; this is the first"
    assert caught.value.code == "compile"


def test_assembler_errors_show_the_source_line() -> None:
    """Without its `a`, an architecture lacks what only Hopper has: an error, and no abort."""
    source = '__global__ void f() {\n    asm volatile("wgmma.fence.sync.aligned;");\n}\n'
    assert compile(source, "sm_90a").startswith(b"\x7fELF")
    with pytest.raises(CompileError) as caught:
        compile(source, "sm_90")
    first, line, caret = caught.value.message.splitlines()
    assert first.startswith("k.cu:2: error: Instruction 'wgmma.fence' not supported")
    assert caret.index("^") == line.index("wgmma.fence")


def test_unknown_options_and_architectures_are_named() -> None:
    with pytest.raises(CompileError, match="no-such-option"):
        compile("__global__ void f() {}", "sm_80", "--no-such-option")
    with pytest.raises(DeviceError, match='got "hopper"'):
        compile("__global__ void f() {}", "hopper")
