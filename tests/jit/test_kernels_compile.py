"""Every kernel compiles for the oldest, Hopper's and the newest architecture, without a GPU."""

import pytest

from assay import _native
from assay.runtime import cuda
from kernel_variants import ARCHITECTURES, Options, variants

KERNELS = [name for name, _ in _native.cuda_sources() if name.endswith(".cu")]


def compile(name: str, architecture: str, options: Options) -> None:
    flags = [f"-D{option}={value}" for option, value in options.items()]
    compiled = cuda.compile(dict(_native.cuda_sources())[name], architecture, name, flags)
    assert compiled.startswith(b"\x7fELF")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", KERNELS)
def test_kernel_compiles(name: str, architecture: str) -> None:
    for options in list(variants(name, architecture))[:1]:
        compile(name, architecture, options)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", KERNELS)
def test_every_variant_compiles(name: str, architecture: str) -> None:
    for options in variants(name, architecture):
        compile(name, architecture, options)


def test_every_kernel_has_a_variant() -> None:
    for name in KERNELS:
        assert any(True for each in ARCHITECTURES for _ in variants(name, each)), name


TRACED = [name for name, text in _native.cuda_sources() if "TRACE_SPAN(" in text]


@pytest.mark.parametrize("name", [name for name in TRACED if name.endswith(".cu")])
def test_kernels_compile_with_the_times_they_store(name: str) -> None:
    options = next(iter(variants(name, "sm_90a")))
    sizes = []
    for trace in ({}, {"TRACE": 1}, {"TRACE": 2}):
        flags = [f"-D{option}={value}" for option, value in {**options, **trace}.items()]
        source = dict(_native.cuda_sources())[name]
        sizes.append(len(cuda.compile(source, "sm_90a", name, flags)))
    assert sizes[0] != sizes[2], "TRACE changes nothing in the kernel"


def test_every_kernel_of_a_step_stores_its_times() -> None:
    needed = (
        "gemv",
        "small_m_gemm",
        "attention_decode",
        "attention_prefill",
        "normalize",
        "sample",
    )
    assert {f"{name}.cu" for name in needed} <= set(TRACED)
