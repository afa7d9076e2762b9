"""Random blocks of GGML's 32-weight formats with their values, from the definition of the formats.

A block is a 16-bit scale d, for Q4_1 a 16-bit minimum m, and codes: 32 signed bytes (Q8_0), or 16
bytes whose lower halves are the first 16 weights. Values are d q, d (q - 8) and d q + m.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

FORMATS = ("Q8_0", "Q4_0", "Q4_1")


def random_blocks(
    name: str, rows: int, inputs: int, seed: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Blocks of a format, one row after the other, and the values that they stand for."""
    random = np.random.default_rng(seed)
    count = rows * inputs // 32
    scale = random.uniform(0.01, 2.0, (count, 1)).astype(np.float16)
    minimum = random.uniform(-2.0, 2.0, (count, 1)).astype(np.float16)
    codes: npt.NDArray[Any] = random.integers(-128, 128, (count, 32)).astype(np.int8)
    header = [scale.view(np.uint8)]
    if name == "Q8_0":
        stored, values = codes.view(np.uint8), scale.astype(np.float32) * codes
    else:
        codes = codes.view(np.uint8) & 15
        stored = codes[:, :16] | codes[:, 16:] << 4
        if name == "Q4_0":
            values = scale.astype(np.float32) * (codes.astype(np.float32) - 8)
        else:
            header.append(minimum.view(np.uint8))
            values = scale.astype(np.float32) * codes + minimum.astype(np.float32)
    blocks = np.concatenate([*header, stored], axis=1)
    return blocks.reshape(rows, -1), values.astype(np.float32).reshape(rows, inputs)
