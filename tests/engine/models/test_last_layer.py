"""Behind the last attention only rows that are sampled are computed.

That their logits are right, `test_architectures.py` shows for every architecture.
"""

import pytest
from small_models import fixture_engine

from assay import ops
from assay.engine import SamplingParams

PROMPTS = [[3, 17, 5, 90, 41, 8], [7, 7, 21], [64, 2, 33, 9]]


def test_the_last_mlp_has_the_sampled_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: dict[str, list[int]] = {}
    linear = ops.linear

    def noted(x, weights, **options):
        rows.setdefault(options["label"], []).append(x.shape[0])
        return linear(x, weights, **options)

    with fixture_engine("llama", max_batch=4) as engine:
        last = len(engine._state.model.blocks) - 1
        monkeypatch.setattr(ops, "linear", noted)
        engine.generate(PROMPTS, SamplingParams(max_tokens=1, temperature=0.0))
    first, behind = (set(rows[f"layers.{layer}.mlp.down"]) for layer in (0, last))
    assert max(first) >= sum(map(len, PROMPTS))
    assert max(behind) < sum(map(len, PROMPTS))
    assert set(rows[f"layers.{last}.attention.qkv"]) == first
