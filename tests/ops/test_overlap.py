"""Outputs of an operation must not overlap its inputs."""

import re

import pytest

from assay import xp
from assay.errors import DeviceError
from assay.ops.operands import check_overlap


def test_results_must_not_overlap_operands() -> None:
    whole = xp.zeros((8, 4), dtype=xp.float32)
    first, second = whole[:4], whole[4:]
    across = whole[2:6]
    check_overlap("linear", [("x", first), ("residual", None), ("out", second)])
    check_overlap("linear", [("x", first), ("norm", first), ("out", second)])
    for name, x in (("x", second), ("residual", across), ("bias", whole)):
        message = f"linear: expected out apart from {name}, got memory of both"
        with pytest.raises(DeviceError, match=re.escape(message)):
            check_overlap("linear", [(name, x), ("out", second)])
