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
from kernel_variants import E4M3, INT8, UINT4, layout  # noqa: E402

pytestmark = pytest.mark.gpu

GROUPED = [(4, 32, 96), (4, 128, 384), (8, 32, 160), (8, 64, 192)]
"""Bits of a weight, weights of a group, inputs."""
WEIGHT_FORMATS = {4: UINT4, 8: INT8}


def padded(weight: int, inputs: int) -> int:
    line_weights = 1024 // weight
    return -(-inputs // line_weights) * line_weights


def dequantize(
    weight_format: str, group: int, packed: torch.Tensor, scales: torch.Tensor, inputs: int,
    zero_point: object = 0,
) -> torch.Tensor:  # fmt: skip
    out = torch.full((packed.shape[0], inputs), math.nan, device="cuda")
    kernel = Kernel(
        "dequantize.cu",
        WEIGHT_FORMAT=weight_format,
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
    got = dequantize(WEIGHT_FORMATS[weight], group, packed, scales, inputs)
    torch.testing.assert_close(got, dequantized)


@pytest.mark.parametrize("weight_format", [INT8, E4M3])
def test_row_quantization_matches_pytorch(weight_format: str) -> None:
    x = torch.randn(5, 1008, device="cuda") * 3
    x[1] = 0
    quantize = packing.quantize_rows if weight_format == INT8 else packing.quantize_e4m3
    expected, expected_scales, dequantized = quantize(x)
    codes = torch.full((5, 1008), 0xEE, dtype=torch.uint8, device="cuda")
    scales = torch.full((5,), math.nan, device="cuda")
    Kernel("quantize.cu", WEIGHT_FORMAT=weight_format, GROUP_SIZE=0, TYPE="float", THREADS=128)(
        5, 128, x, codes, scales, 1008
    )
    nonzero_rows = [0, 2, 3, 4]  # a row of zeros has any scale
    torch.testing.assert_close(scales[nonzero_rows], expected_scales[nonzero_rows])
    assert (codes[nonzero_rows] == expected.view(torch.uint8)[nonzero_rows]).float().mean() > 0.999
    torch.testing.assert_close(
        dequantize(weight_format, 0, codes, scales, 1008), dequantized, rtol=0.07, atol=0.03
    )


@pytest.mark.parametrize(("weight", "group", "inputs"), GROUPED)
def test_group_quantization_is_within_half_a_step(weight: int, group: int, inputs: int) -> None:
    x = torch.randn(5, inputs, device="cuda")
    full = padded(weight, inputs)
    codes = torch.full((5, full * weight // 8), 0xEE, dtype=torch.uint8, device="cuda")
    scales = torch.full((5, inputs // group, 2), math.nan, dtype=torch.float16, device="cuda")
    weight_format = WEIGHT_FORMATS[weight]
    kernel = Kernel("quantize.cu", WEIGHT_FORMAT=weight_format, GROUP_SIZE=group, TYPE="float")
    kernel((-(-full // group // 32), 5), 32, x, codes, scales, inputs)
    step = scales[:, :, 0].float().repeat_interleave(group, 1)
    error = (dequantize(weight_format, group, codes, scales, inputs) - x).abs()
    assert (error <= 0.51 * step + 2e-3).all()


@pytest.mark.parametrize(("name", "weight"), [("Q8_0", 8), ("Q4_0", 4), ("Q4_1", 4)])
def test_repacked_ggml_blocks_keep_their_values(name: str, weight: int) -> None:
    inputs, macros = 96, layout(name.lower())
    blocks, values = random_blocks(name, 5, inputs, seed=1)
    expected = torch.from_numpy(values).cuda()
    full = padded(weight, inputs)
    codes = torch.full((5, full * weight // 8), 0xEE, dtype=torch.uint8, device="cuda")
    scales = torch.full((5, inputs // 32, 2), math.nan, dtype=torch.float16, device="cuda")
    on_device = torch.from_numpy(np.ascontiguousarray(blocks)).cuda()
    kernel = Kernel("pack_blocks.cu", **macros)
    kernel((-(-full // 128 // 32), 5), 32, on_device, codes, scales, inputs)
    got = dequantize(WEIGHT_FORMATS[weight], 32, codes, scales, inputs, macros["ZERO_POINT"])
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
