"""Reading what a kernel takes off its declaration."""

import pytest

from assay.errors import InputError
from assay.jit.signature import read


def test_parameters_are_read_with_their_qualifiers() -> None:
    source = """
    // __global__ void comment(int n) {
    template <int N> __device__ float helper(float x) { return x; }
    extern "C" __global__ __launch_bounds__(256, 2) void f(
        const float* __restrict__ x, unsigned char *y, float const * z, bf16* const out,
        unsigned long long count, const int n, double by /* a scale */) { }
    """
    signature = read(source, None)
    assert signature.name == "f"
    parsed = [
        (one.name, one.pointer, one.writes, one.element, one.scalar) for one in signature.parameters
    ]
    assert parsed == [
        ("x", True, False, "float32", None),
        ("y", True, True, "uint8", None),
        ("z", True, False, "float32", None),
        ("out", True, True, "bfloat16", None),
        ("count", False, False, None, "u64"),
        ("n", False, False, None, "i32"),
        ("by", False, False, None, "f64"),
    ]


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        ("void f() {}", None, "expected a kernel, got a source without one"),
        ("__global__ void f() {} __global__ void g() {}", None, "got a source with f, g"),
        ("__global__ void f() {}", "g", 'expected a kernel "g", got a source with f'),
        ("__global__ void f(short n) {}", None, 'got "short n"'),
        ("__global__ void f(float** x) {}", None, 'got "float** x"'),
        ("__global__ void f(Things things) {}", None, 'got "Things things"'),
        ("__global__ void f(int) {}", None, 'got "int"'),
    ],
)
def test_unparsable_signatures_raise(source: str, name: str | None, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(source, name)
    assert message in caught.value.message


def test_kernel_is_selected_by_name() -> None:
    source = "__global__ void f(int a) {} __global__ void g(float* b) {}"
    assert [one.name for one in read(source, "g").parameters] == ["b"]
    assert read("__global__ void f(void) {}", None).parameters == ()
