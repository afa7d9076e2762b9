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
        Kernel("read_all.cu")(blocks, 512, x, ctypes.c_uint64(count), parts, done, out)
        # Small whole numbers: the sum is exact in any order.
        assert out.item() == x.double().sum().item()
        assert done.item() == 0


@pytest.mark.parametrize("count", [1, 4099, 1_000_003])
def test_copy_all(count: int) -> None:
    x, out = torch.randn(count, device="cuda"), poison(count + 4)
    grid = -(-count // 4 // 512 // 4) + 1
    Kernel("copy_all.cu")(grid, 512, x, out, ctypes.c_uint64(count))
    assert torch.equal(out[:count], x)
    assert out[count:].isnan().all()


@pytest.mark.parametrize("count", [1, 4099])
def test_multiply_add(count: int) -> None:
    x, out = torch.randint(-8, 8, (count,), device="cuda").float(), poison(count + 4)
    grid = -(-count // 4 // 128) + 1
    arguments = (ctypes.c_uint64(count), 19, 1.0, 2.0)
    Kernel("multiply_add.cu")(grid, 128, x, out, *arguments)
    assert torch.equal(out[:count], x + 38.0)
    assert out[count:].isnan().all()
