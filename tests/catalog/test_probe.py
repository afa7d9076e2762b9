"""The probe of this machine: an entry that a scenario can include."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.catalog import entries, probe
from assay.errors import InputError


def test_the_probe_measures_and_its_file_is_an_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_READ_BYTES", 1 << 22)
    monkeypatch.setattr(probe, "_MATRIX", 128)
    found = probe.probe()
    assert {value.kind for value in found.values.values()} == {"measured"}
    path = tmp_path / "host.json"
    probe.write_entry(found, path)
    again = entries.from_file(path)
    assert again.values == found.values
    # No machine that runs these tests is slower than this or faster than that.
    assert 1e8 < again.given["gpu.memory.bandwidth"] < 1e13
    assert 1e8 < again.given["gpu.peak_flops"] < 1e15
    assert np.isfinite(again.given["gpu.memory.capacity"])
    with pytest.raises(InputError, match="exists"):
        probe.write_entry(found, path)
    probe.write_entry(found, path, force=True)
    with pytest.raises(InputError, match=r"expected a \.json file"):
        probe.write_entry(found, tmp_path / "host.txt")
