"""The kernels that go over numbers one by one, and those that ceilings are measured with."""

import ctypes
import math

import pytest

torch = pytest.importorskip("torch", reason="the kernels' references need PyTorch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from kernel_harness import Kernel, relative_error  # noqa: E402

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


@pytest.mark.parametrize("number", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("count", "vector"), [(4096, 0), (1003, 1)])
@pytest.mark.parametrize("with_residual", [False, True])
def test_activate(number: str, function: str, count: int, vector: int, with_residual: bool) -> None:
    dtype = DTYPES[number]
    wide = vector or (4 if number == "float" else 8)
    x, residual = torch.randn(2, count, device="cuda").to(dtype)
    out = poison(count, dtype=dtype)
    code = list(FUNCTIONS).index(function)
    kernel = Kernel("activate.cu", NUMBER=number, ACTIVATE=code, VECTOR=wide)
    kernel(-(-count // wide // 128) + 1, 128, x, residual if with_residual else None, out, count)
    expected = FUNCTIONS[function](x.double()) + (residual.double() if with_residual else 0.0)
    assert relative_error(out, expected) < CLOSE[number]


@pytest.mark.parametrize("count", [1, 4099, 1_000_003])
def test_read_all(count: int) -> None:
    x = torch.randint(-8, 8, (count,), device="cuda").float()
    blocks = 8
    parts = poison(blocks, dtype=torch.float64)
    done, out = torch.zeros(1, dtype=torch.int32, device="cuda"), poison(1)
    for _ in range(2):
        Kernel("stream_read.cu")(blocks, 512, x, ctypes.c_uint64(count), parts, done, out)
        # Small whole numbers: the sum is exact in any order.
        assert out.item() == x.double().sum().item()
        assert done.item() == 0


@pytest.mark.parametrize("count", [1, 4099, 1_000_003])
def test_copy_all(count: int) -> None:
    x, out = torch.randn(count, device="cuda"), poison(count + 4)
    grid = -(-count // 4 // 512 // 4) + 1
    Kernel("stream_copy.cu")(grid, 512, x, out, ctypes.c_uint64(count))
    assert torch.equal(out[:count], x)
    assert out[count:].isnan().all()


@pytest.mark.parametrize("count", [1, 4099])
def test_multiply_add(count: int) -> None:
    x, out = torch.randint(-8, 8, (count,), device="cuda").float(), poison(count + 4)
    grid = -(-count // 4 // 128) + 1
    arguments = (ctypes.c_uint64(count), 19, 1.0, 2.0)
    Kernel("fma_peak.cu")(grid, 128, x, out, *arguments)
    assert torch.equal(out[:count], x + 38.0)
    assert out[count:].isnan().all()


@pytest.mark.parametrize("number", DTYPES)
@pytest.mark.parametrize("other", DTYPES)
def test_convert(number: str, other: str) -> None:
    x = torch.randn(1003, device="cuda").to(DTYPES[number])
    out = poison(1005, dtype=DTYPES[other])
    Kernel("convert.cu", TYPE=number, OUTPUT=other)(8, 128, x, out, 1003)
    assert torch.equal(out[:1003], x.to(DTYPES[other]))
    assert out[1003:].isnan().all()


@pytest.mark.parametrize("number", DTYPES)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(65, 40, 33), (1, 130, 64), (128, 64, 16)])
def test_matmul(number: str, turned: bool, m: int, n: int, k: int) -> None:
    dtype = DTYPES[number]
    a = torch.randn(2, m, k, device="cuda").to(dtype)
    b = torch.randn(2, *((n, k) if turned else (k, n)), device="cuda").to(dtype)
    bias, added = torch.randn(n, device="cuda").to(dtype), torch.randn(2, m, n, device="cuda")
    out = poison(2, m, n)
    steps = [k, 1, m * k, *((1, k) if turned else (n, 1)), k * n, n, m * n]
    kernel = Kernel("matmul.cu", TYPE=number, OUTPUT="float", EPILOGUE=1)
    kernel(
        (-(-n // 64), -(-m // 64), 2), 256, a, b, added, bias, out, m, n, k,
        *(ctypes.c_longlong(step) for step in steps),
    )  # fmt: skip
    product = a.double() @ (b.mT if turned else b).double()
    expected = (product + added.double() + bias.double()).clamp(min=0)
    assert relative_error(out, expected) < 1e-5


@pytest.mark.parametrize(("source", "size", "steps"), [(80, 34, 254), (40, 18, 15), (41, 20, 15)])
@pytest.mark.parametrize("number", DTYPES)
def test_blocks_and_back(source: int, size: int, steps: int, number: str) -> None:
    x = torch.randn(7, 32, device="cuda").to(DTYPES[number])
    blocks = torch.full((7, size), 0xEE, dtype=torch.uint8, device="cuda")
    Kernel("quantize_blocks.cu", SOURCE=source, TYPE=number)(2, 128, x, blocks, 224)
    out = poison(7, 32)
    Kernel("dequantize_blocks.cu", SOURCE=source, OUTPUT="float")(2, 128, blocks, out, 224)
    # A step is the range over the steps; Q4_0's range is twice the largest number.
    width = (x.float().amax(1) - x.float().amin(1)) if source == 41 else 2 * x.float().abs().amax(1)
    limit = width / steps * (1.0 if source == 40 else 0.51) + 2e-3
    assert ((out - x.float()).abs() <= limit[:, None]).all()
