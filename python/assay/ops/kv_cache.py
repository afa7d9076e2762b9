"""Element types of the paged KV cache, as the operations on it take them.

Besides dense types, a cache of uint8 holds e4m3 floats (FP8), and one of int8 holds codes with a
scale, in single precision, for each token of a head: four more bytes for each token.
"""

from __future__ import annotations

from typing import Final

from assay._native import FORMATS
from assay.ops.operands import DENSE, Operand, check, operand
from assay.runtime import dtypes
from assay.runtime.array import Array
from assay.runtime.dtypes import DType

CACHE_DTYPES: Final = (*DENSE, dtypes.uint8, dtypes.int8)

_CODES: Final = {dtypes.uint8: FORMATS["f8_e4m3"], dtypes.int8: FORMATS["i8"]}


def token_elements(head_dim: int, dtype: DType) -> int:
    """Elements of the cache for one token of a head, with its scale."""
    return head_dim + (4 if dtype is dtypes.int8 else 0)


def is_quantized(dtype: DType) -> bool:
    """Whether keys and values of this type are rounded to 8 bits."""
    return dtype in _CODES


def check_cache(
    operation: str,
    keys: Array,
    values: Array,
    block_tokens: int | None,
    kv_heads: int,
    head_dim: int,
) -> None:
    """Check that keys and values are caches of this shape."""
    check(operation, "keys", keys, (None, None, None, None), CACHE_DTYPES)
    token = token_elements(head_dim, keys.dtype)
    check(operation, "keys", keys, (None, block_tokens, kv_heads, token), (keys.dtype,))
    check(operation, "values", values, keys.shape, (keys.dtype,))


def cache_operand(operation: str, name: str, cache: Array) -> Operand | Array:
    """The cache as an operand of the format that its type stands for."""
    if not is_quantized(cache.dtype) or not cache.size:
        return cache
    buffer, offset, size, _ = operand(operation, name, cache)
    return (buffer, offset, size, _CODES[cache.dtype])
