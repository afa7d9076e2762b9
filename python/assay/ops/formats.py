"""Formats of packed weights; their block sizes come from the operations crate."""

from __future__ import annotations

from typing import Final

from assay._native import BLOCK_FORMATS
from assay.runtime import dtypes

DTYPES: Final = {"f32": dtypes.float32, "f16": dtypes.float16, "bf16": dtypes.bfloat16}
"""The dtypes of dense formats."""

DENSE: Final = {name: BLOCK_FORMATS[name].bytes for name in DTYPES}
"""Dense formats and the bytes of an element."""

_QUANTIZED: Final = ("q8_0", "q4_0", "q4_1", "q4_k", "q5_k", "q6_k")
_STORED: Final = ("q5_0", "q5_1", "q2_k", "q3_k", "iq4_nl", "iq4_xs", "mxfp4")

BLOCKS: Final = {
    name: (BLOCK_FORMATS[name].values, BLOCK_FORMATS[name].bytes)
    for name in (*_QUANTIZED, *_STORED)
}
"""Block formats with kernels on some device: values and bytes per block, as in GGUF."""

STORED_BLOCKS: Final = frozenset(_STORED)
"""Those that are read from files only: nothing here quantizes to them."""

PER_CHANNEL: Final = ("int8", "fp8")
"""Formats of one byte per weight with a scale per output: signed integers, and e4m3 floats."""

INT4_GROUP: Final = BLOCK_FORMATS["int4"].values
"""Weights of int4 that share a scale and a minimum."""

NAMES: Final = (*DENSE, *PER_CHANNEL, "int4", *_QUANTIZED)
"""Formats that values are quantized to; a device's capabilities say which of them it supports."""
