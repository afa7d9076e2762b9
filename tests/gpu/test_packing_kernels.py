"""Quantized weights: quantized, dequantized and repacked from files, against their definitions."""

import math

import numpy as np
import pytest

from ggml_blocks import random_blocks

torch = pytest.importorskip("torch", reason="the kernels' references need PyTorch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import kernel_packing as packing  # noqa: E402
from kernel_harness import Kernel  # noqa: E402

pytestmark = pytest.mark.gpu

GROUPED = [(4, 32, 96), (4, 128, 384), (8, 32, 160), (8, 64, 192)]


def padded(weight: int, inputs: int) -> int:
    line_weights = 1024 // weight
    return -(-inputs // line_weights) * line_weights


def dequantize(
    weight: int,
    group: int,
    packed: torch.Tensor,
    scales: torch.Tensor,
    inputs: int,
    zero_point: int = 0,
) -> torch.Tensor:
    out = torch.full((packed.shape[0], inputs), math.nan, device="cuda")
    kernel = Kernel(
        "dequantize.cu",
        WEIGHT_FORMAT=weight,
        GROUP_SIZE=group,
        ZERO_POINT=zero_point,
        OUTPUT="float",
    )
    kernel((-(-inputs // 256), packed.shape[0]), 32, packed, scales, out, inputs)
    return out


@pytest.mark.parametrize(("weight", "group", "inputs"), GROUPED)
def test_dequantize_inverts_group_quantization(weight: int, group: int, inputs: int) -> None:
    packed, scales, dequantized = packing.quantize_groups(
        torch.randn(5, inputs, device="cuda"), group, weight
    )
    torch.testing.assert_close(dequantize(weight, group, packed, scales, inputs), dequantized)


@pytest.mark.parametrize("weight", [8, 80])
def test_row_quantization_matches_pytorch(weight: int) -> None:
    x = torch.randn(5, 1008, device="cuda") * 3
    x[1] = 0
    quantize = packing.quantize_rows if weight == 8 else packing.quantize_e4m3
    expected, expected_scales, dequantized = quantize(x)
    codes = torch.full((5, 1008), 0xEE, dtype=torch.uint8, device="cuda")
    scales = torch.full((5,), math.nan, device="cuda")
    Kernel("quantize.cu", WEIGHT_FORMAT=weight, GROUP_SIZE=0, TYPE="float", THREADS=128)(
        5, 128, x, codes, scales, 1008
    )
    nonzero_rows = [0, 2, 3, 4]  # a row of zeros has any scale
    torch.testing.assert_close(scales[nonzero_rows], expected_scales[nonzero_rows])
    assert (codes[nonzero_rows] == expected.view(torch.uint8)[nonzero_rows]).float().mean() > 0.999
    torch.testing.assert_close(
        dequantize(weight, 0, codes, scales, 1008), dequantized, rtol=0.07, atol=0.03
    )


@pytest.mark.parametrize(("weight", "group", "inputs"), GROUPED)
def test_group_quantization_is_within_half_a_step(weight: int, group: int, inputs: int) -> None:
    x = torch.randn(5, inputs, device="cuda")
    full = padded(weight, inputs)
    codes = torch.full((5, full * weight // 8), 0xEE, dtype=torch.uint8, device="cuda")
    scales = torch.full((5, inputs // group, 2), math.nan, dtype=torch.float16, device="cuda")
    kernel = Kernel("quantize.cu", WEIGHT_FORMAT=weight, GROUP_SIZE=group, TYPE="float")
    kernel((-(-full // group // 32), 5), 32, x, codes, scales, inputs)
    step = scales[:, :, 0].float().repeat_interleave(group, 1)
    error = (dequantize(weight, group, codes, scales, inputs) - x).abs()
    assert (error <= 0.51 * step + 2e-3).all()


@pytest.mark.parametrize(
    ("name", "block_format", "weight"), [("Q8_0", 80, 8), ("Q4_0", 40, 4), ("Q4_1", 41, 4)]
)
def test_repacked_ggml_blocks_keep_their_values(name: str, block_format: int, weight: int) -> None:
    inputs = 96
    blocks, values = random_blocks(name, 5, inputs, seed=1)
    expected = torch.from_numpy(values).cuda()
    full = padded(weight, inputs)
    codes = torch.full((5, full * weight // 8), 0xEE, dtype=torch.uint8, device="cuda")
    scales = torch.full((5, inputs // 32, 2), math.nan, dtype=torch.float16, device="cuda")
    on_device = torch.from_numpy(np.ascontiguousarray(blocks)).cuda()
    kernel = Kernel(
        "pack_blocks.cu", BLOCK_FORMAT=block_format, WEIGHT_FORMAT=weight, GROUP_SIZE=32
    )
    kernel((-(-full // 128 // 32), 5), 32, on_device, codes, scales, inputs)
    got = dequantize(weight, 32, codes, scales, inputs, 8 if name == "Q4_0" else 0)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
