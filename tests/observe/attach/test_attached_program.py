"""Programs whose tracing `assay bench tracing` measures, with a fake driver."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay.bench.suites import attaching
from assay.bench.suites.attaching import AttachedProgram
from assay.errors import InputError
from assay.observe.attach.injection import TraceFolder

BLOCKS = """
import json
cuda.cuInit(0)
for line in sys.stdin:
    count = int(line)
    launch(count)
    print(json.dumps({"seconds": 1e-6 * count, "kernels": count, **tool()}), flush=True)
"""
"""A program whose workloads are numbers of kernels."""


@pytest.fixture
def start(
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    script: Callable[[str], Path],
    tmp_path: Path,
) -> Iterator[Callable[..., AttachedProgram]]:
    started = []
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    def start(text: str = BLOCKS, *, traced: bool = True) -> AttachedProgram:
        folder = TraceFolder(tmp_path, period_ms=50) if traced else None
        started.append(AttachedProgram([sys.executable, str(script(text))], folder))
        return started[-1]

    yield start
    for one in started:
        one.close()


def test_recording_is_turned_on_for_a_block_and_off_again(
    start: Callable[..., AttachedProgram],
) -> None:
    program = start()
    assert program.folder is not None
    assert program.run("100") == (pytest.approx(1e-4), 100)
    assert program.folder.shards() == []
    for _ in range(2):
        assert program.recorded("3000") == pytest.approx(3e-3)
        assert (program.missing, program.folder.shards()) == (0, [])
    assert program.run("5")[1] == 5
    assert program.folder.shards() == []
    path = program.folder.path
    program.close()
    assert not path.exists()


def test_kernels_that_no_shard_has_are_counted(start: Callable[..., AttachedProgram]) -> None:
    program = start(BLOCKS.replace("launch(count)", "launch(count // 2)"))
    program.recorded("3000")
    assert 1400 < program.missing <= 1500


def test_a_program_without_the_library_is_not_traced(start: Callable[..., AttachedProgram]) -> None:
    program = start(traced=False)
    assert program.run("7") == (pytest.approx(7e-6), 7)
    assert program.folder is None


def test_a_program_that_ends_is_named(start: Callable[..., AttachedProgram]) -> None:
    program = start("sys.stdin.readline(); sys.exit(3)")
    with pytest.raises(InputError, match="ended in the workload 9: exit code 3"):
        program.run("9")


def test_a_program_that_never_records_is_named(
    start: Callable[..., AttachedProgram], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A program that does not load the driver has no library either.
    monkeypatch.setattr(attaching, "_TIMEOUT_S", 0.3)
    program = start(BLOCKS.replace("cuda.cuInit(0)", ""))
    with pytest.raises(InputError, match="s for the traced program to record"):
        program.recorded("1")


def test_cases_of_every_workload() -> None:
    cases = attaching.cases("synthetic", "cuda:0", 200, 12)
    names = [case.name for case in cases]
    assert len(set(names)) == 2 * len(attaching.WORKLOADS)
    assert {case.rounds for case in cases} == {12}
