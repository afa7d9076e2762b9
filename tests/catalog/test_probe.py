"""The probe of this machine: an entry that a scenario can include."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay import stack
from assay.catalog import entries, probe
from assay.errors import InputError


def test_probe_output_is_a_catalog_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_READ_BYTES", 1 << 22)
    monkeypatch.setattr(probe, "_MATRIX", 128)
    found = probe.probe()
    assert {value.kind for value in found.values.values()} == {"measured"}
    assert set(found.values) <= set(stack.registry().variables)
    path = tmp_path / "host.json"
    probe.write_entry(found, path)
    again = entries.from_file(path)
    assert again.values == found.values
    for name in ("gpu.memory.bandwidth", "gpu.peak_flops", "gpu.memory.capacity"):
        assert 0 < again.given[name] < np.inf
    with pytest.raises(InputError, match="exists"):
        probe.write_entry(found, path)
    probe.write_entry(found, path, force=True)
    with pytest.raises(InputError, match=r"expected a \.json file"):
        probe.write_entry(found, tmp_path / "host.txt")
