"""Two models on one GPU: shares of its time, and the latency of a guaranteed one."""

from collections.abc import Iterator

import numpy as np
import pytest

from assay.bench.suites.shared_models import Load, SharedModels
from assay.runtime import cuda, device as shared_device

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

LOAD = Load(prompt=128, tokens=64, requests=8)
TOLERANCE = 0.03


@pytest.fixture(scope="module", params=[False, True], ids=["by weight", "guaranteed"])
def models(request: pytest.FixtureRequest) -> Iterator[SharedModels]:
    found = SharedModels(
        shared_device("cuda:0"),
        "llama-3-8b-shape",
        formats=("file", "fp8"),
        guaranteed=request.param,
        load=LOAD,
    )
    yield found
    found.close()


def test_models_under_load_keep_their_shares(models: SharedModels) -> None:
    found = models.shares(3.0)
    assert found.of_device_time == pytest.approx(0.7, abs=TOLERANCE)
    assert found.busy > 0.95
    assert models.wrong() == 0


def test_a_guaranteed_model_keeps_its_latency(models: SharedModels) -> None:
    if not models.sharing.shares[0].guaranteed:
        pytest.skip("nothing is guaranteed")
    ratios = []
    for seed in range(3):
        alone, beside = (models.paced(20, flooded=flooded, seed=seed) for flooded in (False, True))
        ratios.append(beside.p99("to_last_token") / alone.p99("to_last_token"))
    # The median of three: the host may be late in any run.
    assert np.median(ratios) < 1.2, ratios
