"""The models of speech that were downloaded."""

from pathlib import Path

import pytest

from assay.engine.loading import sources


@pytest.fixture
def kokoro_folder(machine_scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_SCRATCH", str(machine_scratch))
    if not sources.is_pulled("kokoro"):
        pytest.skip("needs: assay pull kokoro")
    return sources.folder_of("kokoro")
