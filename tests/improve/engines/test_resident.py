"""Servers of several settings at once, against a program with the flags and paths of `vllm serve`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from test_vllm_serve import model, program  # noqa: F401

from assay.errors import InputError
from assay.improve.engines import memory_sharing
from assay.improve.engines.command import CommandTemplate
from assay.improve.engines.http import HttpEngine
from assay.improve.engines.memory_sharing import GIB, Device
from assay.improve.engines.process import is_running
from assay.improve.engines.protocol import Room, TrialFailedError
from assay.improve.engines.resident import ResidentEngine
from assay.improve.engines.vllm import open_vllm
from assay.improve.journal import run_folder
from assay.improve.journal.journal import Journal
from assay.improve.journal.journaled_engine import JournaledEngine
from assay.improve.journal.recovery import recover
from assay.load.workloads.builtin import workload
from assay.load.workloads.measurement import Setting
from assay.load.workloads.workload import Window

SHARED = Room(3, "shared", "three servers")


@pytest.fixture
def engine(program: Path, model: Path, tmp_path: Path) -> Iterator[ResidentEngine]:  # noqa: F811
    base = open_vllm(str(model), folder=tmp_path / "logs", program=str(program))
    engine = ResidentEngine(base)
    yield engine
    engine.close()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Device:
    """A GPU of 140 GiB, of which the server has 100 for its KV cache."""
    device = Device(140.0 * GIB, 0.92, 100.0 * GIB, 100 * 512 * 16)
    monkeypatch.setattr(memory_sharing, "device_of", lambda engine: device)
    return device


def test_changes_go_from_server_to_server_without_a_restart(
    engine: ResidentEngine, gpu: Device
) -> None:
    started = []
    engine.on_start = started.append
    first = engine.base.server.record
    assert first is not None
    before = dict(engine.settings())
    engine.start([{}, {}, {"enforce_eager": True}], SHARED)
    assert len(started) == 3
    assert not is_running(first)
    # Each has its part of the memory, which its settings do not show.
    for record in started:
        words = list(record.argv)
        assert words[words.index("--gpu-memory-utilization") + 1] == "0.3067"
        assert words[words.index("--kv-cache-memory-bytes") + 1] == str(int(gpu.cache_of(3)))
    assert engine.settings() == before
    load = workload("vllm-decode")
    assert engine.measure(load, Window(requests=2)).settings["enforce_eager"] is False
    assert engine.is_live({"enforce_eager": True})
    undo = engine.configure({"enforce_eager": True})
    assert engine.settings()["enforce_eager"] is True
    assert engine.settings()["gpu_memory_utilization"] == 0.92
    assert engine.measure(load, Window(requests=2)).settings["enforce_eager"] is True
    # The command is that of the server that was given, with the whole memory.
    command = engine.launch_command(engine.settings())
    assert "--enforce-eager" in command
    assert "kv-cache" not in command
    assert "utilization" not in command
    # What followed from it goes back with it, whichever way it is taken back.
    undo()
    assert engine.settings() == before
    engine.configure({"enforce_eager": True})
    engine.configure({"enforce_eager": False})
    assert engine.settings() == before
    assert len(started) == 3
    twin = engine.twin({})
    assert twin is not None
    assert twin.settings() == before
    engine.close()
    assert not any(is_running(record) for record in started)


def test_a_server_that_does_not_start_fails_when_it_is_asked_for(
    engine: ResidentEngine, gpu: Device
) -> None:
    engine.start([{}, {"optimization_level": 3}, {"max_num_seqs": 0}], SHARED)
    with pytest.raises((TrialFailedError, InputError), match=r"max_num_seqs|server"):
        engine.configure({"max_num_seqs": 0})
    assert engine.settings()["max_num_seqs"] == 256
    assert engine.measure(workload("vllm-decode"), Window(requests=1)).errors == 0


def test_a_server_whose_settings_cannot_be_read_is_stopped(
    engine: ResidentEngine, gpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = HttpEngine.settings

    def unread(own: HttpEngine) -> Mapping[str, Setting]:
        if own is not engine.base and own.chosen.get("enforce_eager") and own.server.started:
            raise InputError("the settings cannot be read")
        return settings(own)

    monkeypatch.setattr(HttpEngine, "settings", unread)
    started = []
    engine.on_start = started.append
    engine.start([{}, {"enforce_eager": True}], SHARED)
    running = {"--enforce-eager" in record.argv: is_running(record) for record in started}
    assert running == {False: True, True: False}
    with pytest.raises(TrialFailedError, match="the settings cannot be read"):
        engine.configure({"enforce_eager": True})


def test_of_two_with_the_whole_memory_one_sleeps(engine: ResidentEngine, gpu: Device) -> None:
    engine.start([{}, {"enforce_eager": True}], SHARED)
    started = []
    engine.on_start = started.append
    assert engine.take_turns([{}, {"enforce_eager": True}])
    assert len(started) == 2
    for record in started:
        assert "--enable-sleep-mode" in record.argv
        assert "--kv-cache-memory-bytes" not in record.argv
    load = workload("vllm-decode")
    assert engine.measure(load, Window(requests=1)).errors == 0
    engine.configure({"enforce_eager": True})
    assert engine.measure(load, Window(requests=1)).errors == 0
    [asleep] = [
        member
        for key, members in engine._members.items()
        for member in members
        if key != engine._front
    ]
    assert asleep.measure(load, Window(requests=1)).errors == 1


def test_servers_of_a_run_that_died_are_all_stopped(
    engine: ResidentEngine, gpu: Device, tmp_path: Path
) -> None:
    """What a watchdog does from the journal alone, without the process that started them."""
    run = run_folder.create("vllm race", tmp_path / "runs")
    with Journal.create(run.path) as journal:
        own = JournaledEngine(engine, journal, run)
        own.declare_safe("the start")
        engine.start([{}, {}, {"enforce_eager": True}], SHARED)
        undo = own.configure({"enforce_eager": True})
        undo()
        own.configure({"enforce_eager": True})
    servers = [
        member.server.record
        for members in engine._members.values()
        for member in members
        if member.server.record is not None
    ]
    assert len(servers) == 3
    assert all(is_running(server) for server in servers)
    recovered = recover(run, "watchdog", "the controller died")
    assert recovered.action == "stopped"
    assert not any(is_running(server) for server in servers)
    assert recovered.settings is not None
    assert recovered.settings["enforce_eager"] is False


def test_a_found_server_is_left_with_what_was_chosen(
    engine: ResidentEngine,
    gpu: Device,
    program: Path,  # noqa: F811
) -> None:
    base = engine.base
    base.server.was_found = True
    engine.start([{}, {"enforce_eager": True}], SHARED)
    engine.configure({"enforce_eager": True})
    engine.close()
    record = base.server.record
    assert record is not None
    assert is_running(record)
    assert "--enforce-eager" in record.argv
    assert "--kv-cache-memory-bytes" not in record.argv
    assert base.address.url.rpartition(":")[2] in record.argv
    base.server.was_found = False
    base.close()


def test_a_found_server_is_started_once_to_know_how_long_that_takes(
    engine: ResidentEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    took = engine.start_seconds()
    assert took > 0
    first = engine.base.server.record
    assert engine.start_seconds() == took
    engine.base.server.start_seconds = None
    assert engine.start_seconds() == 0.0
    monkeypatch.setattr(type(engine.base), "gpu", lambda self: 0)
    assert engine.start_seconds() > 0
    second = engine.base.server.record
    assert first is not None
    assert second is not None
    assert first.pid != second.pid


def test_room_by_the_memory_of_the_gpu(
    engine: ResidentEngine, gpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(engine.base), "gpu", lambda self: 0)
    # 128.8 GiB of 140 are the server's, 28.8 of them are no KV cache; 3.5 of each are outside its share.
    assert gpu.cache_of(1) / GIB == pytest.approx(100.0)
    assert gpu.cache_of(2) / GIB == pytest.approx(64.4 - 28.8 - 3.5)
    room = engine.room(50_000)
    assert (room.servers, room.memory) == (3, "shared")
    assert engine.room(200_000).servers == 2
    assert engine.room(500_000).servers == 1
    monkeypatch.setattr(memory_sharing, "device_of", lambda engine: "nobody knows")
    assert engine.room(1).servers == 1
    assert "nobody knows" in engine.room(1).sentence


def test_memory_is_read_from_log_and_metrics(
    engine: ResidentEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.runtime import cuda

    monkeypatch.setattr(type(engine.base), "gpu", lambda self: 0)
    gpu = cuda.Gpu("fake", 90, 140 * GIB, 132, 1, 1, True)
    found = replace(cuda.probe(), gpus=(gpu,))
    monkeypatch.setattr(cuda, "probe", lambda: found)
    device = memory_sharing.device_of(engine.base)
    assert device == Device(140.0 * GIB, 0.92, 100.0 * GIB, 100 * 512 * 16)


def test_a_command_without_its_port_cannot_have_a_second_server() -> None:
    with pytest.raises(InputError, match="expected its port 8000"):
        CommandTemplate.parse("serve {settings}").at_port(8000, 8001)
