"""Weights in the order in which gemv.cu reads them, and what they stand for."""

import torch


def spans(weights: torch.Tensor, per_piece: int) -> torch.Tensor:
    """Rows filled up with zeros to whole pieces: rows, pieces, spans, 4 lanes, 8 weights."""
    rows, inputs = weights.shape
    full = -(-inputs // per_piece) * per_piece
    padded = torch.zeros(rows, full, dtype=weights.dtype, device=weights.device)
    padded[:, :inputs] = weights
    return padded.view(rows, -1, per_piece // 32, 4, 8)


def row_chunks(weight: int, inputs: int, group: int) -> int:
    """16-byte chunks of a row of weights of 16, 8 (8 or 80) or 4 bits."""
    held = 128 // {80: 8}.get(weight, weight)
    return -(-inputs // (held * 8)) * 8 if group else inputs // held


def pack_bytes(codes: torch.Tensor) -> torch.Tensor:
    """Weights of 8 bits in groups: chunk 4 i + t holds 8 weights each of spans 2 i and 2 i + 1."""
    lanes = spans(codes, 128).view(codes.shape[0], -1, 2, 2, 4, 8)
    return lanes.permute(0, 1, 2, 4, 3, 5).reshape(codes.shape[0], -1).contiguous()


def pack_nibbles(codes: torch.Tensor) -> torch.Tensor:
    """Weights of 4 bits: word s % 4 of chunk 4 (s / 4) + t holds 8 weights of span s."""
    lanes = spans(codes, 256).view(codes.shape[0], -1, 2, 4, 4, 8).to(torch.int32)
    ordered = lanes.permute(0, 1, 2, 4, 3, 5)
    pairs = ordered[..., 0::2] | ordered[..., 1::2] << 4
    return pairs.to(torch.uint8).reshape(codes.shape[0], -1).contiguous()


def quantize_rows(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Signed bytes with a scale per row: the bytes, scales, and the weights they stand for."""
    scales = weights.float().abs().amax(1).clamp_min(1e-12) / 127
    codes = torch.round(weights.float() / scales[:, None]).clamp(-127, 127)
    return codes.to(torch.int8), scales, codes * scales[:, None]


def quantize_e4m3(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Numbers of 8 bits with a scale per row."""
    scales = weights.float().abs().amax(1).clamp_min(1e-12) / 448
    codes = (weights.float() / scales[:, None]).to(torch.float8_e4m3fn)
    return codes.view(torch.uint8), scales, codes.float() * scales[:, None]


def quantize_groups(
    weights: torch.Tensor, group: int, bits: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Whole numbers (4 bits: from 0; 8 bits: signed) with a scale and a minimum per group, in fp16."""
    rows, inputs = weights.shape
    grouped = weights.float().view(rows, inputs // group, group)
    least, most = grouped.amin(2), grouped.amax(2)
    lowest, steps = (0, 15) if bits == 4 else (-128, 255)
    scale = ((most - least) / steps).half()
    minimum = (least - lowest * scale.float()).half()
    codes = (grouped - minimum.float()[..., None]) / scale.float()[..., None].clamp_min(1e-6)
    codes = torch.round(codes).clamp(lowest, lowest + steps)
    stands_for = codes * scale.float()[..., None] + minimum.float()[..., None]
    flat = codes.view(rows, inputs)
    packed = pack_nibbles(flat.to(torch.uint8)) if bits == 4 else pack_bytes(flat.to(torch.int8))
    return packed, torch.stack([scale, minimum], dim=2).contiguous(), stands_for.view(rows, inputs)
