"""Models that the tests of the engine share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def smollm2(machine_scratch: Path, scratch: Path) -> Path:
    """SmolLM2, fetched once for the machine and put where this process looks for it."""
    from assay.engine.loading.pulling import pull
    from assay.engine.loading.sources import pulled_path

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_SCRATCH", str(machine_scratch))
        kept = pull("smollm2")
    here = pulled_path("smollm2")
    if not here.exists():
        here.parent.mkdir(parents=True, exist_ok=True)
        here.symlink_to(kept)
    return here
