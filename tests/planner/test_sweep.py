"""Sweeps: the same numbers as predictions one by one, at a rate."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import AssayError
from assay.planner import BatchConfig, hardware_spec, model_spec, predict_graph
from assay.planner.sweep import sweep

MODEL = model_spec("llama-3.1-8b")


def test_a_sweep_is_predictions_one_by_one() -> None:
    machines = [hardware_spec("h200"), hardware_spec("a100")]
    over = {
        "weight_dtype": ["bf16", "fp8"], "tensor": [1, 2], "cuda_graphs": [True, False],
        "sequences": [1, 33], "context": [10, 5000], "prefill_tokens": [0, 300],
    }  # fmt: skip
    found = sweep(MODEL, machines, over=over)
    assert len(found) == 2 * 2**6
    by_name = {machine.name: machine for machine in machines}
    for row in range(0, len(found), 7):
        settings = {name: column[row] for name, column in found.settings.items()}
        hardware = by_name[str(settings.pop("hardware"))]
        counts = ("sequences", "context", "prefill_tokens", "tensor")
        batch = BatchConfig(**{n: int(v) if n in counts else v for n, v in settings.items()})
        totals = predict_graph(MODEL, hardware, batch).totals
        assert found.step_ns[row] == pytest.approx(totals["step"].value, rel=1e-12)
        assert found.floor_ns[row] == pytest.approx(totals["floor"].value, rel=1e-12)
        assert found.tokens_per_second[row] == pytest.approx(totals["tokens_per_second"].value)


def test_a_hundred_thousand_configurations() -> None:
    over = {"sequences": np.arange(1, 513), "context": np.arange(100, 20100, 100)}
    found = sweep(MODEL, hardware_spec("h200"), over=over)
    assert len(found) == 102_400
    assert np.isfinite(found.step_ns).all()
    assert (found.step_ns >= found.floor_ns).all()
    # The bar is 1e5/s on a machine of one's own.
    assert found.configurations_per_second > 1e4


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"batch": [1]}, "unknown setting"),
        ({"sequences": []}, "got none"),
        ({"sequences": [-1]}, "0 or more"),
        ({"sequences": range(1, 5001), "context": range(1, 5001)}, "at most"),
    ],
)
def test_impossible_sweeps_are_named(over: dict[str, list[int]], message: str) -> None:
    with pytest.raises(AssayError, match=message):
        sweep(MODEL, hardware_spec("h200"), over=over)
