"""Quantized weights in the interleaved layout of gemv.cu, and their dequantized values."""

import torch


def k_steps(weights: torch.Tensor, line_weights: int) -> torch.Tensor:
    """Rows padded with zeros to whole lines: rows, lines, k-steps, 4 lanes, 8 weights."""
    rows, inputs = weights.shape
    full = -(-inputs // line_weights) * line_weights
    padded = torch.zeros(rows, full, dtype=weights.dtype, device=weights.device)
    padded[:, :inputs] = weights
    return padded.view(rows, -1, line_weights // 32, 4, 8)


def row_chunks(bits: int, inputs: int, group: int) -> int:
    """16-byte chunks of a row of weights of so many bits."""
    weights_per_chunk = 128 // bits
    return -(-inputs // (weights_per_chunk * 8)) * 8 if group else inputs // weights_per_chunk


def pack_bytes(codes: torch.Tensor) -> torch.Tensor:
    """Grouped 8-bit weights: chunk 4 i + t holds 8 weights each of k-steps 2 i and 2 i + 1."""
    lanes = k_steps(codes, 128).view(codes.shape[0], -1, 2, 2, 4, 8)
    return lanes.permute(0, 1, 2, 4, 3, 5).reshape(codes.shape[0], -1).contiguous()


def pack_nibbles(codes: torch.Tensor) -> torch.Tensor:
    """4-bit weights: word s % 4 of chunk 4 (s / 4) + t holds 8 weights of k-step s."""
    lanes = k_steps(codes, 256).view(codes.shape[0], -1, 2, 4, 4, 8).to(torch.int32)
    ordered = lanes.permute(0, 1, 2, 4, 3, 5)
    pairs = ordered[..., 0::2] | ordered[..., 1::2] << 4
    return pairs.to(torch.uint8).reshape(codes.shape[0], -1).contiguous()


def quantize_rows(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """int8 with a scale per row: codes, scales, and dequantized weights."""
    scales = weights.float().abs().amax(1).clamp_min(1e-12) / 127
    codes = torch.round(weights.float() / scales[:, None]).clamp(-127, 127)
    return codes.to(torch.int8), scales, codes * scales[:, None]


def quantize_e4m3(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """e4m3 with a scale per row."""
    scales = weights.float().abs().amax(1).clamp_min(1e-12) / 448
    codes = (weights.float() / scales[:, None]).to(torch.float8_e4m3fn)
    return codes.view(torch.uint8), scales, codes.float() * scales[:, None]


def quantize_groups(
    weights: torch.Tensor, group: int, bits: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """uint4 or int8 with an fp16 scale and minimum per group."""
    rows, inputs = weights.shape
    grouped = weights.float().view(rows, inputs // group, group)
    minimum_of_group, maximum_of_group = grouped.amin(2), grouped.amax(2)
    lowest, steps = (0, 15) if bits == 4 else (-128, 255)
    scale = ((maximum_of_group - minimum_of_group) / steps).half()
    minimum = (minimum_of_group - lowest * scale.float()).half()
    codes = (grouped - minimum.float()[..., None]) / scale.float()[..., None].clamp_min(1e-6)
    codes = torch.round(codes).clamp(lowest, lowest + steps)
    dequantized = codes * scale.float()[..., None] + minimum.float()[..., None]
    flat = codes.view(rows, inputs)
    packed = pack_nibbles(flat.to(torch.uint8)) if bits == 4 else pack_bytes(flat.to(torch.int8))
    return packed, torch.stack([scale, minimum], dim=2).contiguous(), dequantized.view(rows, inputs)
