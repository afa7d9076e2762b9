"""Two models under load, as `assay bench sharing` measures them."""

from assay.bench.suites.shared_models import Load, SharedModels
from assay.runtime import Device


def test_floods_and_paced_requests_get_every_token() -> None:
    load = Load(prompt=8, tokens=6, requests=2)
    models = SharedModels(
        Device("cpu"), "synthetic", formats=("file", "file"), guaranteed=True, load=load
    )
    latencies = models.paced(4, flooded=True)
    assert len(latencies.to_first_token) == len(latencies.to_last_token) == 4
    assert len(latencies.between_tokens) == 4 * (load.tokens - 1)
    assert 0 < latencies.p99("to_first_token") <= latencies.p99("to_last_token")
    figures = models.shares(0.05, warm_up=0.0)
    assert 0 < figures.of_device_time < 1
    assert 0 < figures.of_wall_time <= figures.busy
    assert models.wrong() == 0
    models.close()
