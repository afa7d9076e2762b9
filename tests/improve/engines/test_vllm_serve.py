"""`vllm serve` by serial restarts, against a program with its flags, logs, paths and metrics."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from decode_traces import eager

from assay.improve.engines import adapter as adapters, process
from assay.improve.engines.http import HttpEngine
from assay.improve.engines.protocol import TrialFailedError
from assay.improve.engines.supervised import SupervisedServer
from assay.improve.engines.vllm import open_vllm
from assay.load.workloads.builtin import workload
from assay.load.workloads.measurement import Measurement
from assay.load.workloads.workload import Window, Workload
from assay.observe.trace import Trace
from assay.openai_api.address import ServerAddress

HERE = Path(__file__).parent


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the program `vllm` first in the path, and a package `vllm` shaped like 0.24."""
    shutil.copytree(HERE / "fake_vllm_024", tmp_path / "packages" / "vllm")
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "vllm"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(tmp_path / 'packages')!r})\n"
        + (HERE / "fake_vllm_server.py").read_text()
    )
    script.chmod(0o755)
    trace = eager().save(tmp_path / "trace.json")
    paths = [str(tmp_path / "packages"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(one for one in paths if one))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_VLLM_TRACE", str(trace))
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    return script


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A configuration without weights."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def quietest(engine: HttpEngine, load: Workload) -> Measurement:
    """The fastest of three windows: what else the machine does only adds time."""
    windows = [engine.measure(load, Window(requests=4)) for _ in range(3)]
    return min(windows, key=lambda window: window.figures["mean_tpot_ms"])


@pytest.fixture
def engine(program: Path, model: Path, tmp_path: Path) -> Iterator[HttpEngine]:
    found = open_vllm(
        str(model), settings={"enforce_eager": True}, folder=tmp_path / "logs", program=str(program)
    )
    yield found
    found.close()


def test_a_server_is_started_read_back_measured_changed_and_stopped(
    engine: HttpEngine, model: Path, tmp_path: Path
) -> None:
    found = engine.describe()
    assert (found.engine, found.release, found.context_limit) == ("vllm", "0.24.0", 4096)
    settings = engine.settings()
    assert (settings["enforce_eager"], settings["max_num_seqs"]) == (True, 256)
    assert settings["max_cudagraph_capture_size"] == 0
    stated = found.details["read_back"]
    assert stated["enforce_eager"].startswith("/server_info?config_format=json")
    record = engine.server.record
    assert record is not None
    words = record.argv
    assert words[words.index("--load-format") + 1] == "dummy"
    assert "--enforce-eager" in words

    load = workload("vllm-decode")
    before = quietest(engine, load)
    assert (before.errors, before.settings["enforce_eager"]) == (0, True)
    # A token takes 6 ms at least; more by what else the machine does.
    assert before.figures["mean_tpot_ms"] >= 6.0
    [answer] = engine.probe(["the quick brown fox"], 3)
    assert (answer.token_ids, answer.margins) == ((19, 26, 33), (1.5, 1.5, 1.5))
    trace = engine.capture(load, Window(requests=1), tmp_path / "trace")
    assert trace is not None
    assert (Trace.open(trace).events["kind"] == "kernel").any()

    undo = engine.configure({"enforce_eager": False})
    after = quietest(engine, load)
    assert after.settings["enforce_eager"] is False
    assert after.settings["max_cudagraph_capture_size"] == 512
    assert after.figures["mean_tpot_ms"] < before.figures["mean_tpot_ms"]
    # The former server is gone: the port is the same.
    assert engine.server.record is not None
    assert engine.server.record.pid != record.pid
    assert "--no-enforce-eager" not in engine.launch_command(engine.settings())
    undo()
    assert engine.settings()["enforce_eager"] is True
    logs = sorted(path.name for path in (tmp_path / "logs").glob("*.log"))
    assert logs == ["server-000.log", "server-001.log", "server-002.log"]


def test_too_much_memory_is_an_oom_and_the_former_settings_come_back(engine: HttpEngine) -> None:
    with pytest.raises(TrialFailedError, match=r"server \(OOM\): exited with 1 at start") as caught:
        engine.configure({"gpu_memory_utilization": 0.97})
    assert caught.value.failure == "OOM"
    assert caught.value.hint is not None
    assert "reduce GPU memory used" in caught.value.hint
    assert engine.settings()["gpu_memory_utilization"] == 0.92
    assert engine.server.is_healthy()


def test_a_server_that_was_found_keeps_flags_that_the_command_lacks(
    program: Path, model: Path, tmp_path: Path
) -> None:
    """Restarts between windows would give it vLLM's own number of sequences, and the end too."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = f"{program} serve {model} --port {port}"
    found = subprocess.Popen([*command.split(), "--max-num-seqs", "64"], start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        probe = SupervisedServer(ServerAddress(url, "url"), adapters.load("vllm"))
        assert process.wait_until(probe.is_healthy, 60.0)
        engine = HttpEngine(
            url, f"{command} {{settings}}", adapter="vllm", folder=tmp_path / "logs"
        )
        assert engine.chosen == {"max_num_seqs": 64}
        engine.restart(engine.chosen)
        assert engine.settings()["max_num_seqs"] == 64
        engine.close()
        assert engine.server.record is not None
        assert engine.server.record.argv[-2:] == ("--max-num-seqs", "64")
        assert "--profiler-config" not in engine.server.record.argv
        engine.server.stop()
    finally:
        found.kill()
        found.wait()


@pytest.mark.slow
def test_a_run_is_cut_into_parts_and_ends_with_graphs(program: Path, model: Path) -> None:
    """`assay run --engine vllm`, stopped by its budget and taken up again."""

    def assay(*words: str) -> dict[str, object]:
        done = subprocess.run(
            [sys.executable, "-m", "assay", "run", *words, "--json"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found

    first = assay("--engine", "vllm", "--model", str(model), "--workload", "vllm-decode",
                  "--knob", "enforce_eager=true", "--only", "cuda-graphs", "--budget", "60s",
                  "--target", "15%", "--concurrency", "1")  # fmt: skip
    # Two pairs around restarts fit into a minute: they decide on a quiet machine only.
    last = assay("--resume", str(first["run"]), "--budget", "4m")
    assert last["run"] == first["run"]
    assert last["verdict"] == "improved"
    assert last["settings"]["enforce_eager"] is False  # type: ignore[index]
    assert "--enforce-eager" not in str(last["launch_command"])
    checked = subprocess.run(
        [sys.executable, "-m", "assay", "verify-report", str(last["run"])], check=False
    )
    assert checked.returncode == 0
