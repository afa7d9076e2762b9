"""Which GPU a server has, by the device files that it holds open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assay.improve.engines import placement


@pytest.mark.parametrize(
    ("here", "held", "expected"),
    [((0, 1), (1,), 1), ((5,), (5,), 0), ((2, 5, 10), (10, 5), 1), ((0,), (), None)],
)
def test_gpus_are_numbered_as_those_that_are_here(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    here: tuple[int, ...],
    held: tuple[int, ...],
    expected: int | None,
) -> None:
    """A container that has the fifth GPU of its host alone calls it cuda:0."""
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{number}" for number in here)):
        (tmp_path / name).touch()
    monkeypatch.setattr(placement, "_NVIDIA", str(tmp_path / "nvidia"))
    files = [
        (tmp_path / name).open() for name in ("nvidiactl", *(f"nvidia{number}" for number in held))
    ]
    try:
        assert placement.gpu_of(os.getpid()) == expected
    finally:
        for file in files:
            file.close()
