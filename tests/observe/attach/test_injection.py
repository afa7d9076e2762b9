"""The injected library: idle until armed, one shard a process, complete whatever ends the process."""

import json
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.observe.attach import injection, tracing
from assay.observe.attach.injection import TraceFolder

Run = Callable[..., subprocess.CompletedProcess[str]]
Script = Callable[[str], Path]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[TraceFolder]:
    with TraceFolder(tmp_path / "traces", period_ms=100) as made:
        yield made


@pytest.fixture
def traced(folder: TraceFolder, environment: dict[str, str]) -> dict[str, str]:
    return folder.environment(environment)


def until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.01)


def test_idle_library_does_not_touch_cupti(
    folder: TraceFolder, traced: dict[str, str], run_script: Run
) -> None:
    finished = run_script(
        """
        import json
        cuda.cuInit(0)
        launch(10)
        time.sleep(0.3)
        threads = [open(f"/proc/self/task/{one}/comm").read().strip()
                   for one in os.listdir("/proc/self/task")]
        print(json.dumps({**tool(), "threads": threads.count("assay-trace")}))
        """,
        **traced,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    assert json.loads(finished.stdout) == {
        "subscribed": 0, "enabled": 0, "flushes": 0, "nvtx": 0, "threads": 1,
    }  # fmt: skip
    assert folder.shards() == []


def test_normal_exit_delivers_every_kernel(
    folder: TraceFolder, traced: dict[str, str], run_script: Run
) -> None:
    folder.control(armed=True)
    finished = run_script("cuda.cuInit(0); launch(12_345); cuda.fake_copy(8)", **traced)
    assert (finished.returncode, finished.stderr) == (0, "")
    [shard] = folder.shards()
    assert stat.S_IMODE(shard.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    trace = tracing.merge([shard])
    kinds = trace.events["kind"].cast(str)
    assert (int((kinds == "kernel").sum()), int((kinds == "memcpy").sum())) == (12_345, 1)
    assert sorted(trace.events["correlation"].to_list()) == list(range(1, 12_347))
    assert (trace.header.degradations, trace.header.dropped) == ([], 0)
    assert (trace.header.clock, trace.header.source) == ("realtime", "cupti")
    [(pid, command)] = trace.header.processes.items()
    assert trace.events["pid"].unique().to_list() == [int(pid)]
    assert "program0.py" in command
    assert "(CUPTI 130000)" in trace.header.versions["cupti"]


def test_kernels_are_on_disk_while_the_process_lives_and_after_kill_9(
    folder: TraceFolder, traced: dict[str, str], script: Script
) -> None:
    folder.control(armed=True)
    program = subprocess.Popen(
        [sys.executable, str(script("cuda.cuInit(0); launch(777); print(1, flush=True); "
                                    "signal.pause()"))],
        env=traced, stdout=subprocess.PIPE,
    )  # fmt: skip
    with program:
        assert program.stdout is not None
        program.stdout.readline()
        launched = time.monotonic()
        until(lambda: folder.shards() and len(tracing.read(folder.shards()[0]).events) == 777)
        # Two periods and what a busy machine adds.
        assert time.monotonic() - launched < 5
        program.kill()
    [shard] = folder.shards()
    trace = tracing.merge([shard])
    assert len(trace.events) == 777
    [said] = trace.header.degradations
    flushed = tracing.read(shard).flushed_ns
    assert said == (
        f"process {program.pid}: ended without closing its shard; "
        f"what ended after {flushed - 100_000_000} ns may be missing"
    )
    assert trace.events["start_ns"].max() < flushed


def test_a_cut_shard_is_read_to_its_last_whole_batch(
    folder: TraceFolder, traced: dict[str, str], run_script: Run
) -> None:
    folder.control(armed=True)
    run_script("cuda.cuInit(0)\nfor _ in range(4): launch(50); time.sleep(0.15)", **traced)
    [shard] = folder.shards()
    whole = shard.read_bytes()
    counts = []
    for size in range(len(whole), 3000, -max(1, len(whole) // 40)):
        shard.write_bytes(whole[:size])
        trace = tracing.merge([shard])
        counts.append(len(trace.events))
        if size < len(whole):
            assert any("without closing" in one for one in trace.header.degradations)
        correlations = trace.events["correlation"].to_list()
        assert correlations == list(range(1, len(correlations) + 1))
    assert counts[0] == 200
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) > 2


def test_a_forked_child_leaves_the_shard_alone(
    folder: TraceFolder, traced: dict[str, str], run_script: Run
) -> None:
    folder.control(armed=True)
    finished = run_script(
        """
        cuda.cuInit(0)
        launch(10)
        child = os.fork()
        if child == 0:
            time.sleep(0.3)
            ctypes.CDLL(None).exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        launch(10)
        """,
        **traced,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    [shard] = folder.shards()
    trace = tracing.merge([shard])
    assert (len(trace.events), trace.header.degradations) == (20, [])


def test_arming_and_disarming_cut_out_the_time_between(
    folder: TraceFolder, traced: dict[str, str], script: Script
) -> None:
    program = subprocess.Popen(
        [sys.executable, str(script(
            """
            cuda.cuInit(0)
            for count, armed in ((1, 0), (20, 1), (300, 0), (4000, 1), (5, 0)):
                wait_until(lambda: tool()["subscribed"] == armed)
                launch(count)
                print(count, flush=True)
            """
        ))],
        env=traced, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with program:
        assert program.stdout is not None
        for armed in (True, False, True, False):
            program.stdout.readline()
            folder.control(armed=armed)
        program.wait(20)
    assert [len(tracing.read(path).events) for path in folder.shards()] == [20, 4000]
    assert all(tracing.read(path).complete for path in folder.shards())
    assert tracing.merge(folder.shards()).header.degradations == []


def test_processes_are_merged_on_one_clock(
    folder: TraceFolder, traced: dict[str, str], run_script: Run
) -> None:
    folder.control(armed=True)
    finished = run_script(
        """
        import subprocess
        cuda.cuInit(0)
        launch(1, name=b"before")
        code = ("import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); cuda.cuInit(0); "
                "cuda.fake_launch(3, 0, b'child')")
        subprocess.run([sys.executable, "-c", code], check=True)
        launch(1, name=b"after")
        """,
        **traced,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    trace = tracing.merge(folder.shards())
    assert trace.events["name"].cast(str).to_list() == ["before", *["child"] * 3, "after"]
    assert trace.events["start_ns"].is_sorted()
    assert len(trace.header.processes) == 2
    assert abs(trace.events["start_ns"][0] - time.time_ns()) < 60e9


def test_another_profiler_is_a_degradation(
    folder: TraceFolder, traced: dict[str, str], run_script: Run
) -> None:
    folder.control(armed=True)
    finished = run_script("cuda.cuInit(0); launch(5)", **traced, FAKE_OTHER_SUBSCRIBER="1")
    assert (finished.returncode, finished.stderr) == (0, "")
    trace = tracing.merge(folder.shards())
    [pid] = trace.header.processes
    assert trace.header.degradations == [
        f"process {pid}: no records: CUPTI is taken by another profiler"
    ]
    assert len(trace.events) == 0


def test_dropped_records_reach_the_header(
    folder: TraceFolder, traced: dict[str, str], run_script: Run
) -> None:
    folder.control(armed=True)
    run_script("cuda.cuInit(0); launch(5); cuda.fake_drop(42)", **traced)
    header = tracing.merge(folder.shards()).header
    [pid] = header.processes
    assert header.dropped == 42
    assert header.degradations == [f"process {pid}: CUPTI dropped 42 records"]


def test_nvtx_clients_are_connected_once_cupti_records(
    folder: TraceFolder, traced: dict[str, str], run_script: Run
) -> None:
    finished = run_script(
        """
        cuda.cuInit(0)
        assert cuda.fake_nvtx_start() == 1
        print(tool()["nvtx"], flush=True)
        from assay._native import write_trace_control
        write_trace_control(os.environ["ASSAY_TRACE_FOLDER"], armed=True, period_ms=100,
                            activities=["kernel", "nvtx"], libraries=[])
        wait_until(lambda: tool()["subscribed"] == 1)
        print(tool()["nvtx"])
        assert cuda.fake_nvtx_start() == 1
        print(tool()["nvtx"])
        """,
        **traced,
    )
    assert finished.stdout.split() == ["0", "1", "2"], finished.stderr


@pytest.mark.parametrize(
    ("target", "mode", "reason"),
    [
        (".", 0o777, "others may write to it"),
        (".", 0o770, "others may write to it"),
        ("control.json", 0o666, "others may write to it"),
    ],
)
def test_paths_that_others_may_write_are_refused(
    folder: TraceFolder, traced: dict[str, str], run_script: Run, target: str, mode: int,
    reason: str,
) -> None:  # fmt: skip
    folder.control(armed=True)
    (folder.path / target).chmod(mode)
    finished = run_script("cuda.cuInit(0); launch(5); print(tool()['subscribed'])", **traced)
    assert (finished.returncode, finished.stdout) == (0, "0\n")
    assert finished.stderr.startswith("assay: this process is not traced: ")
    assert reason in finished.stderr
    assert folder.shards() == []


def test_links_in_place_of_folder_and_control_file_are_refused(
    folder: TraceFolder, traced: dict[str, str], run_script: Run, tmp_path: Path
) -> None:
    folder.control(armed=True)
    link = tmp_path / "link"
    link.symlink_to(folder.path)
    finished = run_script("cuda.cuInit(0)", **{**traced, "ASSAY_TRACE_FOLDER": str(link)})
    assert "this process is not traced" in finished.stderr
    (folder.path / "control.json").rename(folder.path / "elsewhere.json")
    (folder.path / "control.json").symlink_to("elsewhere.json")
    finished = run_script("cuda.cuInit(0)", **traced)
    assert "this process is not traced" in finished.stderr
    assert folder.shards() == []


def test_a_library_that_others_may_write_is_not_injected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], run_script: Run
) -> None:
    copy = tmp_path / "libassay_inject.so"
    copy.write_bytes(injection.LIBRARY.read_bytes())
    copy.chmod(0o757)
    monkeypatch.setattr(injection, "LIBRARY", copy)
    with pytest.raises(InputError, match="others may write to it"):
        TraceFolder(tmp_path / "traces")
    # The library itself refuses, too.
    finished = run_script(
        "cuda.cuInit(0)", CUDA_INJECTION64_PATH=str(copy), ASSAY_TRACE_FOLDER=str(tmp_path)
    )
    assert "libassay_inject.so: others may write to it" in finished.stderr
    copy.unlink()
    with pytest.raises(InputError, match="expected the injected library, got no file"):
        TraceFolder(tmp_path / "traces")


def test_a_bad_control_file_is_named_and_changes_nothing(
    folder: TraceFolder, traced: dict[str, str], run_script: Run
) -> None:
    control = folder.path / "control.json"
    for text in ('{"state": "ready"}', "{", json.dumps({"state": "armed", "period_ms": 1})):
        control.write_text(text)
        finished = run_script("cuda.cuInit(0); print(tool()['subscribed'])", **traced)
        assert (finished.returncode, finished.stdout) == (0, "0\n")
        assert "this process is not traced: control file: expected" in finished.stderr


def test_without_the_folder_the_library_does_nothing(
    environment: dict[str, str], run_script: Run
) -> None:
    finished = run_script("cuda.cuInit(0)", CUDA_INJECTION64_PATH=str(injection.LIBRARY))
    assert (finished.returncode, finished.stderr) == (0, "")


def test_an_exit_without_handlers_keeps_what_was_flushed(
    folder: TraceFolder, traced: dict[str, str], script: Script
) -> None:
    """Python's multiprocessing ends its children with os._exit: no handler runs."""
    folder.control(armed=True)
    body = "cuda.cuInit(0); launch(40); time.sleep(2); os._exit(9)"
    finished = subprocess.run([sys.executable, str(script(body))], env=traced, timeout=30)
    assert finished.returncode == 9
    trace = tracing.merge(folder.shards())
    assert len(trace.events) == 40
    assert any("without closing" in one for one in trace.header.degradations)


def test_other_injection_is_named(folder: TraceFolder) -> None:
    with pytest.raises(InputError, match="CUDA_INJECTION64_PATH: expected it to be free"):
        folder.environment({"CUDA_INJECTION64_PATH": "libToolsInjection64.so"})
    assert "NVTX_INJECTION64_PATH" in folder.environment({})
    assert folder.environment({"NVTX_INJECTION64_PATH": "x"})["NVTX_INJECTION64_PATH"] == "x"


def test_the_library_links_neither_python_nor_cuda() -> None:
    listed = subprocess.run(
        ["readelf", "--dynamic", "--wide", str(injection.LIBRARY)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    needed = [line for line in listed.splitlines() if "NEEDED" in line]
    assert needed
    assert not any(word in line for line in needed for word in ("python", "cuda", "cupti"))
