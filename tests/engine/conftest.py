"""Models that the tests of the engine share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def smollm2(machine_scratch: Path, scratch: Path) -> Path:
    """SmolLM2, fetched once for the machine and put where this process looks for it."""
    from assay.engine.loading import pulling

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_SCRATCH", str(machine_scratch))
        kept = pulling.pull("smollm2")
    here = pulling.pulled_path("smollm2")
    if not here.exists():
        here.parent.mkdir(parents=True, exist_ok=True)
        here.symlink_to(kept)
    return here
