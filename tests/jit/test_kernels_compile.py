"""Every kernel compiles for the oldest, Hopper's and the newest architecture, without a GPU."""

import pytest

from assay import _native
from assay.errors import CompileError
from assay.runtime import cuda
from kernel_variants import ARCHITECTURES, Options, layout, variants

KERNELS = [name for name, _ in _native.cuda_sources() if name.endswith(".cu")]


TRACED = [name for name, text in _native.cuda_sources() if "TRACE_SPAN(" in text]


def compile(name: str, architecture: str, options: Options) -> bytes:
    flags = [f"-D{option}={value}" for option, value in options.items()]
    compiled = cuda.compile(dict(_native.cuda_sources())[name], architecture, name, flags)
    assert compiled.startswith(b"\x7fELF")
    return compiled


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", KERNELS)
def test_kernel_compiles(name: str, architecture: str) -> None:
    for options in list(variants(name, architecture))[:1]:
        compiled = compile(name, architecture, options)
        if name in TRACED and architecture == "sm_90a":
            traced = compile(name, architecture, {**options, "TRACE": 2})
            assert len(traced) != len(compiled), "TRACE changes nothing in the kernel"


def compile_blocks(codes: str, **macros: object) -> bytes:
    """dequantize_blocks.cu of Q4_1 with another text of codes.cuh, and other macros."""
    options = {**layout("q4_1"), "OUTPUT": "float", **macros}
    name, flags = "dequantize_blocks.cu", [f"-D{name}={value}" for name, value in options.items()]
    sources = {**dict(_native.cuda_sources()), "codes.cuh": codes}
    return _native.cuda_compile(
        sources[name], "sm_90a", name=name, options=flags, headers=list(sources.items())
    )


CODES = dict(_native.cuda_sources())["codes.cuh"]


def test_a_code_of_another_macro_does_not_compile() -> None:
    assert compile_blocks(CODES)
    with pytest.raises(CompileError, match="WeightFormat"):
        compile_blocks(CODES, BLOCK_FORMAT="WeightFormat::Uint4")
    with pytest.raises(CompileError, match="WeightFormat"):
        compile_blocks(CODES, WEIGHT_FORMAT=4)


def test_two_formats_of_one_code_do_not_compile() -> None:
    with pytest.raises(CompileError, match="case label"):
        compile_blocks(CODES.replace(" Q4_1,", " Q4_1 = Q4_0,"))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", KERNELS)
def test_every_variant_compiles(name: str, architecture: str) -> None:
    for options in variants(name, architecture):
        compile(name, architecture, options)


def test_every_kernel_has_a_variant() -> None:
    for name in KERNELS:
        assert any(True for each in ARCHITECTURES for _ in variants(name, each)), name


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TRACED if name.endswith(".cu")])
def test_kernels_compile_with_starts_only(name: str) -> None:
    compile(name, "sm_90a", {**next(iter(variants(name, "sm_90a"))), "TRACE": 1})


def test_every_kernel_of_a_step_stores_its_times() -> None:
    needed = (
        "gemv",
        "gemv_hopper",
        "small_m_gemm",
        "attention_decode",
        "attention_prefill",
        "normalize",
        "sample",
    )
    assert {f"{name}.cu" for name in needed} <= set(TRACED)
