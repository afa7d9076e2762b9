"""Names of number formats: commands and questions take the same."""

from __future__ import annotations

import re

from assay.asking import numbers
from assay.planner import formats


def test_formats_by_the_names_that_questions_take() -> None:
    for said in ("fp4", "w4a16", "w8a8", "awq", "fp16", "bfloat16"):
        match = re.search(numbers.FORMAT, said)
        assert match is not None
        assert formats.canonical(said) == formats.canonical(numbers.weight_format(match))
    assert formats.canonical("fp4") == "nvfp4"
