"""The H20: the H200's multiprocessors with a quarter of its tensor rate."""

import pytest

from assay.planner import BatchConfig, hardware_spec, model_spec, predict_graph


def tokens_per_second(gpu: str, context: int = 1024) -> float:
    batch = BatchConfig(sequences=16, context=context)
    graph = predict_graph(model_spec("llama-2-13b"), hardware_spec(gpu), batch)
    return 16e9 / graph.totals["step"].value


@pytest.mark.parametrize("context", [256, 1024, 4096])
def test_decode_follows_bandwidth_not_the_tensor_rate(context: int) -> None:
    """Llama-2-13B in FP16 at batch 16: 1.1 times the H100, 1.8 times the A100 (Architects' Tech
    Alliance, Performance Analysis of NVIDIA H20 and L20); 4.0 TB/s against 3.35 and 2.0."""
    h20 = tokens_per_second("h20_sxm", context)
    assert 1.0 < h20 / tokens_per_second("h100_sxm", context) <= 4.0 / 3.35
    assert h20 / tokens_per_second("a100_sxm", context) == pytest.approx(1.8, rel=0.15)
    assert h20 < tokens_per_second("h200_sxm", context)
