"""Random blocks of the formats of GGUF, for measurements and tests: nothing here quantizes to them."""

from __future__ import annotations

from typing import Final

import numpy as np

from assay.bench.harness.inputs import NumPyArray
from assay.ops.formats import BLOCKS

HALVES: Final[dict[str, tuple[int, ...]]] = {
    "q8_0": (0,), "q4_0": (0,), "q4_1": (0, 2), "q5_0": (0,), "q5_1": (0, 2), "iq4_nl": (0,),
    "q2_k": (80, 82), "q3_k": (108,), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,),
    "iq4_xs": (0,), "mxfp4": (),
}  # fmt: skip
"""Where a block has its 16-bit floats, scales and minima."""
_EXPONENTS: Final = (118, 126)
"""The range of the exponent of MXFP4: values near one."""


def random_blocks(format: str, rows: int, inner: int, seed: int) -> NumPyArray:
    """Rows of blocks with random codes and scales, as bytes."""
    random = np.random.default_rng(seed)
    values, size = BLOCKS[format]
    count = rows * inner // values
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALVES[format]:
        drawn = random.uniform(-0.02, 0.02, (count, 1)).astype(np.float16)
        blocks[:, at : at + 2] = drawn.view(np.uint8)
    if format == "mxfp4":
        blocks[:, 0] = random.integers(*_EXPONENTS, count)
    return blocks.reshape(rows, -1)
