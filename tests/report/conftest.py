"""One finished run for all tests of a session."""

from pathlib import Path

import pytest
from sample_run import make_run

from assay.improve.loop.record import RunRecord


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunRecord]:
    folder = tmp_path_factory.mktemp("runs") / "20260101-000000-sample-0000"
    return folder, make_run(folder)
