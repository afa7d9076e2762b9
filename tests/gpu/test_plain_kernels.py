"""Elementwise kernels, the fallback GEMM, GGML blocks, and the microbenchmarks of peak rates."""

import ctypes
import math

import pytest

torch = pytest.importorskip("torch", reason="the kernels' references need PyTorch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from kernel_harness import Kernel, relative_error  # noqa: E402
from kernel_variants import activation, layout  # noqa: E402

pytestmark = pytest.mark.gpu

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "float": torch.float32}
CLOSE = {"bf16": 6e-3, "fp16": 1e-3, "float": 1e-6}
FUNCTIONS = {
    "none": lambda x: x,
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "relu": torch.nn.functional.relu,
}


def poison(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(shape, math.nan, device="cuda", dtype=dtype)


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("count", "vector"), [(4096, 0), (1003, 1)])
@pytest.mark.parametrize("with_residual", [False, True])
def test_activate_matches_double_precision(
    element: str, function: str, count: int, vector: int, with_residual: bool
) -> None:
    dtype = DTYPES[element]
    width = vector or (4 if element == "float" else 8)
    x, residual = torch.randn(2, count, device="cuda").to(dtype)
    out = poison(count, dtype=dtype)
    kernel = Kernel("activate.cu", ELEMENT=element, ACTIVATION=activation(function), VECTOR=width)
    kernel(-(-count // width // 128) + 1, 128, x, residual if with_residual else None, out, count)
    expected = FUNCTIONS[function](x.double()) + (residual.double() if with_residual else 0.0)
    assert relative_error(out, expected) < CLOSE[element]


@pytest.mark.parametrize("count", [1, 4099, 1_000_003])
def test_stream_read_sums_exactly(count: int) -> None:
    x = torch.randint(-8, 8, (count,), device="cuda").float()
    blocks = 8
    partials = poison(blocks, dtype=torch.float64)
    finished_ctas, out = torch.zeros(1, dtype=torch.int32, device="cuda"), poison(1)
    for _ in range(2):
        Kernel("stream_read.cu")(
            blocks, 512, x, ctypes.c_uint64(count), partials, finished_ctas, out
        )
        # Small integers: the sum is exact in any order.
        assert out.item() == x.double().sum().item()
        assert finished_ctas.item() == 0


@pytest.mark.parametrize("count", [1, 4099, 1_000_003])
def test_stream_copy_copies_exactly_count_elements(count: int) -> None:
    x, out = torch.randn(count, device="cuda"), poison(count + 4)
    grid = -(-count // 4 // 512 // 4) + 1
    Kernel("stream_copy.cu")(grid, 512, x, out, ctypes.c_uint64(count))
    assert torch.equal(out[:count], x)
    assert out[count:].isnan().all()


@pytest.mark.parametrize("count", [1, 4099])
def test_fma_peak_computes_its_chain(count: int) -> None:
    x, out = torch.randint(-8, 8, (count,), device="cuda").float(), poison(count + 4)
    grid = -(-count // 4 // 128) + 1
    arguments = (ctypes.c_uint64(count), 19, 1.0, 2.0)
    Kernel("fma_peak.cu")(grid, 128, x, out, *arguments)
    assert torch.equal(out[:count], x + 38.0)
    assert out[count:].isnan().all()


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("other", DTYPES)
def test_convert_rounds_like_pytorch(element: str, other: str) -> None:
    x = torch.randn(1003, device="cuda").to(DTYPES[element])
    out = poison(1005, dtype=DTYPES[other])
    Kernel("convert.cu", TYPE=element, OUTPUT=other)(8, 128, x, out, 1003)
    assert torch.equal(out[:1003], x.to(DTYPES[other]))
    assert out[1003:].isnan().all()


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(65, 40, 33), (1, 130, 64), (128, 64, 16)])
def test_matmul_matches_double_precision(
    element: str, transposed: bool, m: int, n: int, k: int
) -> None:
    dtype = DTYPES[element]
    a = torch.randn(2, m, k, device="cuda").to(dtype)
    b = torch.randn(2, *((n, k) if transposed else (k, n)), device="cuda").to(dtype)
    bias, addend = torch.randn(n, device="cuda").to(dtype), torch.randn(2, m, n, device="cuda")
    out = poison(2, m, n)
    strides = [k, 1, m * k, *((1, k) if transposed else (n, 1)), k * n, n, m * n]
    kernel = Kernel("matmul.cu", TYPE=element, OUTPUT="float", EPILOGUE=1)
    kernel(
        (-(-n // 64), -(-m // 64), 2), 256, a, b, addend, bias, out, m, n, k,
        *(ctypes.c_longlong(stride) for stride in strides),
    )  # fmt: skip
    product = a.double() @ (b.mT if transposed else b).double()
    expected = (product + addend.double() + bias.double()).clamp(min=0)
    assert relative_error(out, expected) < 1e-5


@pytest.mark.parametrize(
    ("block_format", "block_bytes", "levels"),
    [("q8_0", 34, 254), ("q4_0", 18, 15), ("q4_1", 20, 15)],
)
@pytest.mark.parametrize("element", DTYPES)
def test_quantized_blocks_are_within_half_a_step(
    block_format: str, block_bytes: int, levels: int, element: str
) -> None:
    x = torch.randn(7, 32, device="cuda").to(DTYPES[element])
    blocks = torch.full((7, block_bytes), 0xEE, dtype=torch.uint8, device="cuda")
    macros = layout(block_format)
    Kernel("quantize_blocks.cu", TYPE=element, **macros)(2, 128, x, blocks, 224)
    out = poison(7, 32)
    Kernel("dequantize_blocks.cu", OUTPUT="float", **macros)(2, 128, blocks, out, 224)
    # A step is the range over the levels; Q4_0's range is twice the largest magnitude.
    value_range = (
        (x.float().amax(1) - x.float().amin(1))
        if block_format == "q4_1"
        else 2 * x.float().abs().amax(1)
    )
    limit = value_range / levels * (1.0 if block_format == "q4_0" else 0.51) + 2e-3
    assert ((out - x.float()).abs() <= limit[:, None]).all()
