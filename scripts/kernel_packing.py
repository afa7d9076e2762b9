"""Weights in the order in which linear_few_rows.cu reads them, and what they stand for."""

import torch


def spans(weights: torch.Tensor, per_piece: int) -> torch.Tensor:
    """Rows filled up with zeros to whole pieces: rows, pieces, spans, 4 lanes, 8 weights."""
    rows, inputs = weights.shape
    full = -(-inputs // per_piece) * per_piece
    padded = torch.zeros(rows, full, dtype=weights.dtype, device=weights.device)
    padded[:, :inputs] = weights
    return padded.view(rows, -1, per_piece // 32, 4, 8)


def pack_bytes(codes: torch.Tensor) -> torch.Tensor:
    """Weights of 8 bits (rows x inputs, uint8): chunk 4 i + t holds spans 2 i and 2 i + 1."""
    lanes = spans(codes, 128).view(codes.shape[0], -1, 2, 2, 4, 2, 4)
    # rows, piece, i, half, lane, word, byte -> rows, piece, i, lane, half, word, byte
    ordered = lanes.permute(0, 1, 2, 4, 3, 5, 6)[..., [0, 2, 1, 3]]
    return ordered.reshape(codes.shape[0], -1).contiguous()


def pack_nibbles(codes: torch.Tensor) -> torch.Tensor:
    """Weights of 4 bits (rows x inputs, uint8 below 16): word s % 4 of chunk 4 (s / 4) + t is span s."""
    lanes = spans(codes, 256).view(codes.shape[0], -1, 2, 4, 4, 8)
    ordered = lanes.permute(0, 1, 2, 4, 3, 5)[..., [0, 2, 4, 6, 1, 3, 5, 7]].to(torch.int32)
    pairs = ordered[..., 0::2] | ordered[..., 1::2] << 4
    return pairs.to(torch.uint8).reshape(codes.shape[0], -1).contiguous()


def quantize_rows(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Signed bytes with a scale per row: packed, scales, and the weights that they stand for."""
    scales = weights.float().abs().amax(1).clamp_min(1e-12) / 127
    codes = torch.round(weights.float() / scales[:, None]).clamp(-127, 127)
    packed = pack_bytes((codes + 128).to(torch.uint8))
    return packed, scales, codes * scales[:, None]


def quantize_e4m3(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Numbers of 8 bits with a scale per row."""
    scales = weights.float().abs().amax(1).clamp_min(1e-12) / 448
    codes = (weights.float() / scales[:, None]).to(torch.float8_e4m3fn)
    return pack_bytes(codes.view(torch.uint8)), scales, codes.float() * scales[:, None]


def quantize_groups(
    weights: torch.Tensor, group: int, bits: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Whole numbers from 0 with a scale and a minimum (fp16) per group of a row."""
    rows, inputs = weights.shape
    grouped = weights.float().view(rows, inputs // group, group)
    least = grouped.amin(2).half()
    steps = (1 << bits) - 1
    scale = ((grouped.amax(2) - least.float()) / steps).half()
    codes = torch.round(
        (grouped - least.float()[..., None]) / scale.float()[..., None].clamp_min(1e-6)
    )
    codes = codes.clamp(0, steps)
    stands_for = codes * scale.float()[..., None] + least.float()[..., None]
    pairs = torch.stack([scale, least], dim=2).contiguous()
    flat = codes.view(rows, inputs).to(torch.uint8)
    packed = pack_nibbles(flat) if bits == 4 else pack_bytes(flat)
    if bits == 8:
        # Codes of 8 bits are counted from 128 by the kernel: the minimum moves with them.
        pairs = torch.stack(
            [scale, (least.float() + 128 * scale.float()).half()], dim=2
        ).contiguous()
        stands_for = (codes - 128) * scale.float()[..., None] + pairs[:, :, 1].float()[..., None]
    return packed, pairs, stands_for.view(rows, inputs)
