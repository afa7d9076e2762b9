"""What operations should give, in plain NumPy and double precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from assay import xp
from assay.runtime.array import Array


def upload(values: Any, dtype: Any = None) -> Array:
    """The values in the pool's memory."""
    if dtype == "bfloat16":
        return xp.astype(xp.asarray(np.asarray(values, np.float32), copy=True), xp.bfloat16)
    return xp.asarray(np.ascontiguousarray(values, dtype), copy=True)


def take(array: Array) -> Any:
    """The values of an array as NumPy numbers; bfloat16 widened."""
    if array.dtype is xp.bfloat16:
        return (array.to_numpy().astype(np.uint32) << 16).view(np.float32)
    return array.to_numpy()


def silu(x: Any) -> Any:
    """x / (1 + e^-x)."""
    return x / (1 + np.exp(-x))


ACTIVATIONS = {
    None: lambda x: x,
    "silu": silu,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


def rms_norm(x: Any, weight: Any, epsilon: float) -> Any:
    """Rows over their root mean square."""
    x = np.asarray(x, np.float64)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * weight


def layer_norm(x: Any, weight: Any, bias: Any, epsilon: float) -> Any:
    """Rows less their mean over their deviation."""
    x = np.asarray(x, np.float64)
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + epsilon) * weight + bias


def rotate(x: Any, positions: Any, frequencies: Any, interleaved: bool = False) -> Any:
    """RoPE on the first 2 x len(frequencies) dimensions of each head."""
    x = np.array(x, np.float64)
    angles = np.asarray(positions, np.float64)[:, None] * frequencies
    cosines, sines = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
    count = 2 * len(frequencies)
    if interleaved:
        first, second = slice(0, count, 2), slice(1, count, 2)
    else:
        first, second = slice(0, count // 2), slice(count // 2, count)
    a, b = x[..., first].copy(), x[..., second].copy()
    x[..., first] = a * cosines - b * sines
    x[..., second] = b * cosines + a * sines
    return x


def attention(q: Any, k: Any, v: Any, scale: float, causal: bool = True) -> Any:
    """Queries (the last tokens) over keys, tokens x heads x width, with shared key heads."""
    queries, heads, _ = q.shape
    tokens, kv_heads, _ = k.shape
    k, v = (np.repeat(np.asarray(x, np.float64), heads // kv_heads, 1) for x in (k, v))
    logits = np.einsum("qhd,khd->hqk", q.astype(np.float64), k) * scale
    if causal:
        masked = np.arange(tokens)[None, :] > np.arange(tokens - queries, tokens)[:, None]
        logits = np.where(masked[None], -np.inf, logits)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("hqk,khd->qhd", weights, v)
