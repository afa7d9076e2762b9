"""Masks of logits against NumPy, thread by thread on the host."""

import numpy as np
import pytest
from emulator import Kernel


@pytest.mark.parametrize(("rows", "vocabulary"), [(1, 1), (3, 257), (2, 1001)])
def test_masked_logits_are_minus_infinity_and_others_untouched(rows: int, vocabulary: int) -> None:
    random = np.random.default_rng(vocabulary)
    logits = random.standard_normal((rows, vocabulary)).astype(np.float32)
    allowed = random.random((rows, -(-vocabulary // 32) * 32)) < 0.5
    words = np.packbits(allowed, axis=1, bitorder="little").view(np.uint32)
    expected = np.where(allowed[:, :vocabulary], logits, -np.inf)
    Kernel("mask_logits.cu", ELEMENT="float")(
        (-(-vocabulary // 64), rows), 64, logits, words, vocabulary
    )
    np.testing.assert_array_equal(logits, expected)
