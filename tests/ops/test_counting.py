"""Operations count FLOPs and bytes by the stack's equations, and say so in their records."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources

import pytest

import make_operation_counts
from assay import stack
from assay.ops import counting


def test_stored_tapes_match_the_stack() -> None:
    stored = json.loads(resources.files("assay.ops").joinpath("counts.json").read_text("ascii"))
    assert stored == make_operation_counts.counts()


@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(1, 576, 576), (32, 49152, 576), (256, 1, 7)]
)
def test_gemm_counts_match_the_registry(rows: int, columns: int, depth: int) -> None:
    given = {
        "kernels.gemm.rows": rows,
        "kernels.gemm.columns": columns,
        "kernels.gemm.depth": depth,
        "kernels.gemm.weight_element": 0.625,
        "kernels.gemm.activation_element": 4,
        "kernels.gemm.output_element": 4,
    }
    registry = stack.registry()
    count = counting.gemm(rows, columns, depth, 0.625)
    assert count.flops == registry.resolve("kernels.gemm.flops", given=given).value
    assert count.flops == 2.0 * rows * columns * depth
    size = registry.resolve("kernels.gemm.size", given=given).value
    assert size is not None
    assert count.bytes == round(size)


def test_attention_counts_match_the_registry() -> None:
    registry = stack.registry()
    shared = {"heads": 9, "kv_heads": 3, "width": 64, "value_width": 64, "element": 4,
              "kv_element": 2, "window": 0, "batch": 1}  # fmt: skip
    decode = {f"kernels.decode.{name}": value for name, value in shared.items()}
    count = counting.attention(1, 1000, 9, 3, 64, 2)
    given = {**decode, "kernels.decode.context": 1000}
    assert count.flops == registry.resolve("kernels.decode.flops", given=given).value
    assert count.flops == 4.0 * 9 * 64 * 1000
    assert count.bytes == 2 * 3 * 64 * 1000 * 2 + 2 * 9 * 64 * 4
    prefill = {f"kernels.prefill.{name}": value for name, value in shared.items()}
    given = {**prefill, "kernels.prefill.length": 200, "kernels.prefill.keys": 1000,
             "kernels.prefill.caching": 0}  # fmt: skip
    count = counting.attention(200, 1000, 9, 3, 64, 2)
    assert count.flops == registry.resolve("kernels.prefill.flops", given=given).value
    # Every query sees the 800 before the chunk and those of the chunk up to itself.
    assert count.flops == pytest.approx(4.0 * 9 * 64 * (200 * 800 + 200 * 201 / 2), rel=0.01)


def test_importing_operations_loads_no_equations() -> None:
    code = (
        "import sys, assay.ops;"
        "print([name for name in sys.modules if name.startswith(('assay.stack', 'assay.model', 'sympy'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
