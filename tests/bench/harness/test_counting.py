"""Bytes and FLOPs of a case match the equations of the stack."""

from typing import Any

import pytest

from assay import stack
from assay.bench.harness import session
from assay.bench.harness.case import Case
from assay.bench.suites import registry


def prepared(suite: str, name: str) -> Any:
    chosen = registry.suite(suite)
    found: list[Case] = [
        case
        for case in chosen.cases(session.settings(chosen, "cpu", quick=True))
        if case.name == name
    ]
    return found[0].prepare()


def gemm_counts(
    rows: int, columns: int, depth: int, weight: float, inputs: float
) -> tuple[Any, Any]:
    """FLOPs and minimum bytes of a GEMM, by the equations."""
    given: dict[str, Any] = {
        f"kernels.gemm.{name}": value
        for name, value in {
            "rows": rows,
            "columns": columns,
            "depth": depth,
            "weight_element": weight,
            "activation_element": inputs,
            "output_element": 4,
        }.items()
    }
    registry = stack.registry()
    return tuple(  # type: ignore[return-value]
        registry.resolve(f"kernels.gemm.{name}", given).require_value()
        for name in ("flops", "size")
    )


@pytest.mark.parametrize(
    ("suite", "name", "shape"),
    [
        ("gemm", "matmul f32 32x256x512", (32, 512, 256, 4, 4)),
        ("gemm", "matmul bf16 32x256x512", (32, 512, 256, 2, 2)),
        ("gemv", "linear f32 1x64x512", (1, 64, 512, 4, 4)),
        ("gemv", "linear q8_0 1x64x512", (1, 64, 512, 34 / 32, 4)),
        ("gemv", "linear q4_1 1x64x512", (1, 64, 512, 20 / 32, 4)),
    ],
)
def test_gemm_counts_match_the_stack(
    suite: str, name: str, shape: tuple[int, int, int, float, float]
) -> None:
    found = prepared(suite, name)
    flops, size = gemm_counts(*shape)
    assert found.flops == flops
    assert found.bytes == size


def test_row_operations_count_bytes_read_and_written() -> None:
    assert prepared("ops", "rms_norm f32 4x256").bytes == 4 * (4 * 256 + 256 + 4 * 256)
    assert prepared("ops", "swiglu f32 4x256").bytes == 4 * (4 * 256 + 4 * 128)
