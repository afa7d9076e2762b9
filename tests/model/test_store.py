"""Cached files: a damaged one is rebuilt and noted, never used."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from assay._native import Tape
from assay.model import store
from assay.model.tapes.program import TapeProgram

SAME_FOLDER = settings(
    max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


def doubling_tape() -> Tape:
    program = TapeProgram(1)
    doubled = program.emit("mul", program.input(0), program.constant(2.0))
    return program.finish([doubled])


@SAME_FOLDER
@given(content=st.binary(max_size=200), place=st.integers(min_value=0))
def test_any_flipped_bit_is_found(tmp_path: Path, content: bytes, place: int) -> None:
    path = tmp_path / "key.json"
    store.write_cache(path, content)
    assert store.read_cache(path) == content
    stored = bytearray(path.read_bytes())
    byte, bit = divmod(place % (8 * len(stored)), 8)
    stored[byte] ^= 1 << bit
    path.write_bytes(stored)
    assert store.read_cache(path) is None


@SAME_FOLDER
@given(content=st.binary(max_size=200), kept=st.floats(min_value=0, max_value=1))
def test_any_truncation_is_found(tmp_path: Path, content: bytes, kept: float) -> None:
    path = tmp_path / "key.json"
    store.write_cache(path, content)
    stored = path.read_bytes()
    path.write_bytes(stored[: min(int(kept * len(stored)), len(stored) - 1)])
    assert store.read_cache(path) is None


def test_a_file_under_another_key_or_of_another_format_is_not_read(tmp_path: Path) -> None:
    store.write_cache(tmp_path / "one", b"content")
    os.rename(tmp_path / "one", tmp_path / "two")
    assert store.read_cache(tmp_path / "two") is None
    store.write_cache(tmp_path / "one", b"content")
    older = (tmp_path / "one").read_bytes().replace(f" {store.FORMAT}\n".encode(), b" 0\n", 1)
    (tmp_path / "one").write_bytes(older)
    assert store.read_cache(tmp_path / "one") is None


def test_an_absent_file_is_no_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert store.read_cache(tmp_path / "absent") is None
    assert not caplog.records


def test_damage_is_noted_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "key.json"
    path.write_bytes(b"")
    assert store.read_cache(path) is None
    assert store.read_cache(path) is None
    (record,) = caplog.records
    assert str(path) in record.getMessage()
    assert "rebuilding" in record.getMessage()


def test_a_damaged_tape_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    store.cached_tape("key", doubling_tape)
    (path,) = (tmp_path / "cache" / "tapes").iterdir()
    intact = path.read_bytes()
    # The constant 2.0 with one bit flipped is another number, in a tape that is still well formed.
    damaged = bytearray(intact)
    damaged[intact.index(b"\x00\x00\x00\x00\x00\x00\x00\x40") + 6] ^= 0x10
    path.write_bytes(damaged)
    tape = store.cached_tape("key", doubling_tape)
    out = memoryview(bytearray(8)).cast("d")
    tape.evaluate([3.0], 1, out.cast("B").cast("d", (1, 1)))
    assert out[0] == 6.0
    assert path.read_bytes() == intact
    assert len(caplog.records) == 1


def test_a_read_only_folder_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way of a folder", encoding="utf-8")
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "file"))
    assert store.cached_tape("key", doubling_tape).n_outputs == 1


def test_a_flipped_bit_in_an_equation_does_not_change_the_answer(tmp_path: Path) -> None:
    """One bit turns a product of two variables into the square of one."""
    command = [
        sys.executable, "-m", "assay", "resolve", "econ.cost.per_token",
        "--preset", "dense_training_cost_fixture",
    ]  # fmt: skip
    environment = {**os.environ, "ASSAY_SCRATCH": str(tmp_path)}

    def answer() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    fresh = answer()
    assert "damaged" not in fresh.stderr
    (path,) = (tmp_path / "cache" / "registry").iterdir()
    intact = path.read_bytes()
    squared = re.sub(rb'(mul\\*",0),1\]', rb"\1,0]", intact)
    assert squared != intact
    path.write_bytes(squared)
    damaged = answer()
    assert damaged.stdout == fresh.stdout
    assert damaged.stderr.count("is damaged") == 1
    assert path.read_bytes() == intact
    assert answer().stderr == fresh.stderr
