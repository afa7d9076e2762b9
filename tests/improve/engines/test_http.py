"""A server tuned by restarts: real processes that look like llama.cpp's server."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from assay.errors import InputError
from assay.http_client import ServerError
from assay.improve.engines import adapter as adapters, following, leaving, process
from assay.improve.engines.http import HttpEngine
from assay.improve.engines.protocol import Engine, EngineLostError, Followed, TrialFailedError
from assay.load.workloads.workload import PlannedRequest, Window, Workload

SERVER = Path(__file__).with_name("fake_llama_server.py")
ADAPTER = replace(
    adapters.load("llama.cpp"), start_timeout_s=60.0, hang_timeout_s=30.0, stop_grace_s=2.0
)
"""Patient: on busy cores a server that is well takes seconds to start or to say so."""
WORKLOAD = Workload(
    "test", "", tuple(PlannedRequest(n, f"words of request {n}", 4) for n in range(8))
)


@pytest.fixture
def port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture
def engines(port, tmp_path):
    opened = []

    def make(flags: str = "", adapter=ADAPTER, **more) -> HttpEngine:
        command = f"{sys.executable} {SERVER} --port {port} {flags} {{settings}}"
        engine = HttpEngine(
            f"http://127.0.0.1:{port}/v1",
            command,
            adapter=adapter,
            folder=tmp_path / "logs",
            **more,
        )
        opened.append(engine)
        return engine

    yield make
    for engine in opened:
        engine.close()
        engine.server.stop()


def test_a_server_is_started_described_and_stopped(engines, port):
    started = []
    engine = engines(on_start=started.append)
    assert isinstance(engine, Engine)
    found = engine.describe()
    assert (found.engine, found.release, found.model) == ("llama.cpp", "b9999-fake", "m.gguf")
    assert (found.device, found.context_limit) == ("cpu", 99)
    assert {"cpu", "cpu-threads", "restart", "speculation"} <= found.capabilities
    assert any("taken from its command line" in one for one in found.degradations)
    assert engine.knobs()["threads"].hot is False
    assert [one.pid for one in started] == [engine.server.record.pid]
    engine.close()
    assert not process.is_running(started[0])
    assert process.listener(port) is None


def test_a_change_restarts_and_undo_brings_the_old_settings_back(engines):
    engine = engines()
    before = engine.settings()
    first = engine.server.record
    changes = {"threads": 1, "cache_type_k": "q8_0", "spec_type": "ngram-mod"}
    undo = engine.configure(changes)
    assert engine.settings() == {**before, **changes}
    assert not process.is_running(first)
    undo()
    assert engine.settings() == before
    # Every start has a log of its own.
    assert sorted(path.name for path in engine.folder.iterdir()) == [
        f"server-{number:03d}.log" for number in range(3)
    ]


def test_a_change_of_one_knob_does_not_move_another(engines):
    engine = engines()
    assert engine.settings()["threads_batch"] == 2
    engine.configure({"threads": 1})
    # The server would let it follow the threads.
    assert engine.settings()["threads_batch"] == 2


def test_the_launch_command_and_the_record_are_what_configure_starts(engines):
    engine = engines()
    wanted = {**engine.settings(), "threads": 1, "flash_attn": "on"}
    record = engine.record_for(wanted)
    assert record.pid is None
    assert list(record.argv) == shlex.split(engine.launch_command(wanted))
    engine.configure({"threads": 1, "flash_attn": "on"})
    # A run adds what makes the server state its settings, and says nothing of it afterwards.
    instrumented = [word for word in engine.server.record.argv if word not in ADAPTER.always]
    assert instrumented == [word for word in record.argv if word not in ADAPTER.always]
    assert set(ADAPTER.always) <= set(engine.server.record.argv)
    assert "--log-verbosity" not in record.argv
    assert engine.settings() == wanted


def test_what_the_server_states_counts_not_what_was_asked(engines):
    engine = engines("--lies")
    engine.configure({"threads": 2})
    assert engine.settings()["threads"] == 1


@pytest.mark.parametrize(
    ("fail", "failure"),
    [
        ("crash", "crash"),
        ("oom", "OOM"),
        ("killed", "OOM"),
        pytest.param("hang", "timeout", marks=pytest.mark.slow),
    ],
)
def test_a_trial_that_fails_leaves_the_former_settings_running(engines, fail, failure):
    limit_s = 5.0 if fail == "hang" else ADAPTER.start_timeout_s
    adapter = replace(ADAPTER, start_timeout_s=limit_s)
    engine = engines(f"--fail {fail} --fail-with-threads 1", adapter)
    before = engine.settings()
    with pytest.raises(TrialFailedError) as caught:
        engine.configure({"threads": 1})
    assert caught.value.failure == failure
    assert str(engine.folder / "server-001.log") in caught.value.hint
    assert engine.settings() == before
    assert engine.server.is_healthy()


def test_a_value_that_the_server_refuses(engines):
    engine = engines()
    with pytest.raises(TrialFailedError) as caught:
        engine.configure({"prio": 1})
    assert caught.value.failure == "refused"
    assert "unrecognized arguments" in caught.value.hint
    with pytest.raises(InputError, match="threads: expected from 1 to 512"):
        engine.configure({"threads": 0})
    assert engine.server.started == 3


def test_a_server_that_never_starts_is_lost(engines):
    with pytest.raises(EngineLostError, match=r"server \(crash\): killed by SIGABRT at start"):
        engines("--fail crash")


def test_windows_are_measured_and_settings_read_back(engines):
    engine = engines()
    found = engine.measure(WORKLOAD, Window(requests=4))
    assert (found.errors, found.output_tokens, len(found.records)) == (0, 16, 4)
    assert found.settings == engine.settings()
    assert found.figures["output_throughput"] > 0


def test_a_window_finds_nothing_of_an_earlier_one_in_the_prefix_cache(engines):
    engine = engines()
    first = engine.server.record
    for _ in range(2):
        engine.measure(WORKLOAD, Window(requests=2))
    # Requests that share nothing do without the cache.
    log = engine.server.log.read_text()
    assert (log.count("cache_prompt False"), log.count("cache_prompt None")) == (4, 1)
    assert engine.server.record == first
    shared = replace(
        WORKLOAD, requests=tuple(replace(one, prefix_tokens=2) for one in WORKLOAD.requests)
    )
    # Requests that share a prefix use it. Other requests: the same server.
    engine.measure(shared, Window(requests=4))
    engine.measure(shared, Window(requests=4, offset=4))
    assert engine.server.record == first
    # The same ones: a fresh server, whose cache is empty.
    engine.measure(shared, Window(requests=4, offset=4))
    assert engine.server.record != first


def test_a_crash_in_a_window_is_told_and_undone(engines):
    engine = engines("--fail crash-later --fail-with-threads 1")
    undo = engine.configure({"threads": 1})
    with pytest.raises(EngineLostError, match="exited with 3 in the window") as caught:
        engine.measure(WORKLOAD, Window(requests=8))
    assert caught.value.failure == "crash"
    undo()
    assert engine.measure(WORKLOAD, Window(requests=2)).errors == 0


def test_a_hang_in_a_window_ends(engines):
    impatient = replace(ADAPTER, hang_timeout_s=0.5)
    engine = engines("--fail hang-later --fail-with-threads 1", impatient)
    undo = engine.configure({"threads": 1})
    with pytest.raises(EngineLostError, match="no answer to health checks") as caught:
        engine.measure(WORKLOAD, Window(requests=8))
    assert caught.value.failure == "hang"
    assert not engine.server.is_running()
    undo()
    assert engine.settings()["threads"] == 2


def test_probes_have_tokens_and_margins(engines):
    [answer] = engines().probe(["hello"], 3)
    assert answer.token_ids == (7, 7, 7)
    assert answer.margins == (1.5, 1.5, 1.5)


def test_a_server_that_ran_before_is_taken_over_and_left_running(engines, port, tmp_path):
    first = engines("--threads 1")
    command = f"{sys.executable} {SERVER} --port {port} {{settings}}"
    second = HttpEngine(
        f"http://127.0.0.1:{port}", command, adapter=ADAPTER, folder=tmp_path / "second"
    )
    assert second.server.was_found
    # Its log is not known: the command line says so.
    assert second.settings()["threads"] == 1
    undo = second.configure({"poll": 0})
    assert not process.is_running(first.server.record)
    assert (second.settings()["threads"], second.settings()["poll"]) == (1, 0)
    undo()
    second.close()
    assert second.server.is_healthy()
    second.server.stop()


@pytest.mark.parametrize("given", ["--port {other}", "--port={other}"])
def test_a_command_that_starts_a_server_elsewhere_is_refused(port, given):
    command = f"server {given.format(other=port + 1)} {{settings}}"
    with pytest.raises(InputError, match=f"expected port {port} .* got --port {port + 1}"):
        HttpEngine(f"http://127.0.0.1:{port}/v1", command, adapter=ADAPTER)


def test_a_server_that_is_interrupted_at_its_start_is_stopped(port, tmp_path):
    def interrupt(text):
        raise KeyboardInterrupt

    started = []
    with pytest.raises(KeyboardInterrupt):
        HttpEngine(
            f"http://127.0.0.1:{port}/v1",
            "sh -c 'sleep 333; {settings}'",
            adapter=ADAPTER,
            folder=tmp_path,
            on_start=started.append,
            say=interrupt,
        )
    assert len(started) == 1
    assert not process.is_running(started[0])


def test_without_a_restart_command_nothing_can_be_changed(engines, port):
    running = engines()
    engine = HttpEngine(f"http://127.0.0.1:{port}")
    assert engine.adapter.name == "llama.cpp"
    assert engine.knobs() == {}
    assert any("no restart command" in one for one in engine.describe().degradations)
    with pytest.raises(InputError, match="expected a restart command"):
        engine.configure({"threads": 1})
    engine.close()
    assert running.server.is_healthy()
    assert engine.capture(WORKLOAD, Window(requests=1), Path("x")) is None


def test_no_server_and_no_command_is_refused(port):
    with pytest.raises(InputError, match="expected a server, got no answer"):
        HttpEngine(f"http://127.0.0.1:{port}")


def test_a_setting_of_the_command_itself_can_be_set_to_the_default(engines):
    engine = engines("--cache-type-k q8_0")
    assert engine.settings()["cache_type_k"] == "q8_0"
    undo = engine.configure({"cache_type_k": "f16"})
    assert engine.settings()["cache_type_k"] == "f16"
    undo()
    assert engine.settings()["cache_type_k"] == "q8_0"


@pytest.fixture
def somebody_elses(port):
    """A server that somebody started by hand, with a variable and a flag of their own."""
    argv = (sys.executable, str(SERVER), "--port", str(port), "--threads", "2")
    environment = {**os.environ, "OF_THE_USER": "kept"}
    record = process.ServerRecord(argv, environment, inherits=False)
    started, child = process.start(record)
    assert process.wait_until(lambda: process.listener(port) is not None, 60.0)
    yield started
    child.kill()
    child.wait()


def test_a_found_server_is_left_as_it_was_found(engines, somebody_elses, port):
    """Flags, variables and working directory; an instrumented restart leaves nothing behind."""
    before = process.identify(somebody_elses.pid)
    variables = process.process_environment(somebody_elses.pid)
    engine = engines(environment={"ASSAY_RUN": "1"})
    # What a journal holds is the command of the user, without the variables: they may be secrets.
    start = engine.record_for(engine.settings())
    assert start.argv == before.argv
    assert start.environment == {}
    undo = engine.configure({"threads": 1})
    assert "--log-verbosity" in engine.server.record.argv
    undo()
    engine.close()
    now = process.identify(process.listener(port))
    assert now.pid != before.pid
    assert (now.argv, now.cwd) == (before.argv, before.cwd)
    assert process.process_environment(now.pid) == variables


def test_kept_settings_are_left_without_instrumentation(engines, somebody_elses, port):
    engine = engines()
    engine.configure({"threads": 1})
    line = engine.launch_command(engine.settings())
    engine.close()
    now = process.identify(process.listener(port))
    assert list(now.argv) == shlex.split(line)
    assert "--threads" in now.argv
    assert not {"--log-verbosity", "--metrics"} & set(now.argv)


def test_a_found_server_that_was_never_changed_is_not_restarted(engines, somebody_elses, port):
    engine = engines()
    engine.measure(WORKLOAD, Window(requests=2))
    engine.close()
    assert process.listener(port) == somebody_elses.pid


@pytest.mark.parametrize(
    ("command", "failure"), [("sleep 1000; {settings}", "timeout"), ("exit 3; {settings}", "crash")]
)
def test_a_command_that_starts_nothing_leaves_the_server_as_it_was_found(
    somebody_elses, port, tmp_path, command, failure
):
    before = process.identify(somebody_elses.pid)
    variables = process.process_environment(somebody_elses.pid)
    journaled = []
    engine = HttpEngine(
        f"http://127.0.0.1:{port}/v1",
        f"sh -c '{command}' --port {port}",
        adapter=replace(ADAPTER, start_timeout_s=5.0 if failure == "timeout" else 60.0),
        folder=tmp_path / "logs",
        on_start=journaled.append,
    )
    for _ in range(2):
        with pytest.raises(TrialFailedError) as caught:
            engine.configure({"threads": 1})
        assert caught.value.failure == failure
        assert "the server runs again as it was found" in caught.value.__notes__
        assert engine.server.is_healthy()
        assert engine.settings()["threads"] == 2
    engine.close()
    now = process.identify(process.listener(port))
    try:
        assert (now.argv, now.cwd) == (before.argv, before.cwd)
        assert process.process_environment(now.pid) == variables
        assert not any("OF_THE_USER" in record.environment for record in journaled)
    finally:
        engine.server.stop()


@pytest.fixture
def launcher(port, tmp_path):
    """A program that starts the server, with the command that runs it; it may be taken away."""
    path = tmp_path / "bin" / "launcher"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {SERVER} "$@"\n')
    path.chmod(0o755)
    return path


def as_found(port: int, before: process.ServerRecord, variables: dict[str, str] | None) -> bool:
    """Whether a server runs with its own flags and variables."""
    now = process.identify(process.listener(port))
    is_same = (now.argv, now.cwd) == (before.argv, before.cwd)
    return is_same and process.process_environment(now.pid) == variables


@pytest.mark.parametrize("program", ["/no/such/program", "no-such-program-on-the-path"])
def test_a_command_without_its_program_is_refused_before_anything_is_stopped(
    somebody_elses, port, tmp_path, program
):
    with pytest.raises(InputError, match=f'server command "{program}" cannot be started: expected'):
        HttpEngine(
            f"http://127.0.0.1:{port}/v1",
            f"{program} --port {port} {{settings}}",
            adapter=ADAPTER,
            settings={"threads": 1},
            folder=tmp_path / "logs",
        )
    assert process.listener(port) == somebody_elses.pid


def test_a_program_that_vanishes_in_a_run_leaves_the_server_running(
    somebody_elses, port, tmp_path, launcher
):
    before = process.identify(somebody_elses.pid)
    variables = process.process_environment(somebody_elses.pid)
    command = f"{launcher} --port {port} {{settings}}"
    engine = HttpEngine(
        f"http://127.0.0.1:{port}/v1", command, adapter=ADAPTER, folder=tmp_path / "logs"
    )
    launcher.rename(launcher.with_suffix(".old"))
    with pytest.raises(
        TrialFailedError, match="cannot be started: expected an executable"
    ) as caught:
        engine.configure({"threads": 1})
    assert caught.value.failure == "refused"
    assert process.listener(port) == somebody_elses.pid
    # The same once the command has worked: the last server that it started goes on.
    launcher.with_suffix(".old").rename(launcher)
    engine.configure({"threads": 1})
    own = process.listener(port)
    launcher.unlink()
    with pytest.raises(TrialFailedError, match="cannot be started"):
        engine.configure({"threads": 2})
    assert process.listener(port) == own
    assert engine.settings()["threads"] == 1
    # What cannot be started without the instrumentation is left with it.
    with pytest.raises(EngineLostError, match="cannot be started"):
        engine.close()
    assert process.listener(port) == own
    engine.server.stop()
    # Where nothing runs any more, it is brought back as it was found.
    with pytest.raises(EngineLostError, match="cannot be started") as lost:
        engine.close()
    assert "the server runs again as it was found" in lost.value.__notes__
    assert as_found(port, before, variables)
    engine.server.stop()


@pytest.mark.parametrize("has_worked", [False, True])
def test_a_program_that_vanishes_at_a_restart_brings_the_server_back_as_it_was_found(
    somebody_elses, port, tmp_path, launcher, monkeypatch, has_worked
):
    before = process.identify(somebody_elses.pid)
    variables = process.process_environment(somebody_elses.pid)
    engine = HttpEngine(
        f"http://127.0.0.1:{port}/v1",
        f"{launcher} --port {port} {{settings}}",
        adapter=ADAPTER,
        folder=tmp_path / "logs",
    )
    if has_worked:
        engine.configure({"poll": 0})
    stop = engine.server.stop

    def vanishing() -> None:
        stop()
        launcher.unlink(missing_ok=True)

    monkeypatch.setattr(engine.server, "stop", vanishing)
    # A trial fails where the former settings run again; once others were kept, they are lost.
    with pytest.raises(EngineLostError, match="cannot be started") as caught:
        engine.configure({"threads": 1})
    assert isinstance(caught.value, TrialFailedError) is not has_worked
    assert caught.value.failure == "refused"
    assert "the server runs again as it was found" in caught.value.__notes__
    assert as_found(port, before, variables)
    engine.server.stop()


def test_a_server_that_was_stopped_and_never_started_is_brought_back_at_the_end(
    engines, somebody_elses, port, monkeypatch
):
    before = process.identify(somebody_elses.pid)
    variables = process.process_environment(somebody_elses.pid)
    engine = engines()
    start = engine.server.start

    def interrupted(record: process.ServerRecord) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine.server, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.configure({"threads": 1})
    assert (engine.server.started, process.listener(port)) == (0, None)
    monkeypatch.setattr(engine.server, "start", start)
    engine.close()
    assert as_found(port, before, variables)


def test_a_server_whose_variables_cannot_be_read_is_not_replaced(
    engines, somebody_elses, port, monkeypatch
):
    """Started again it would have none of them."""
    monkeypatch.setattr(leaving, "process_environment", lambda pid: None)
    with pytest.raises(InputError, match=f"expected its variables in /proc/{somebody_elses.pid}"):
        engines()
    assert process.listener(port) == somebody_elses.pid


def test_an_answer_that_the_server_refuses_to_be_led_along_is_not_judged(engines, monkeypatch):
    engine = engines()

    def along(prober, server, model, given, tie):
        if given[1] == "too long":
            raise ServerError("/v1/completions: expected success, got 400", status=400)
        return Followed((0.0,))

    monkeypatch.setattr(following, "along", along)
    request = WORKLOAD.requests[0]
    judged = engine.follow([(request, "too long"), (request, "short")], 0.1)
    assert judged == [None, Followed((0.0,))]
    assert any("cannot be judged" in text for text in engine.describe().degradations)


def test_an_answer_of_an_adapter_is_held_against_that_adapter(engines, monkeypatch):
    engine = engines()
    base = engine._served.model()
    monkeypatch.setattr(engine._served, "_model", replace(base, listed=frozenset((base.name, "a"))))
    asked = []
    monkeypatch.setattr(following, "along", lambda prober, server, model, *_: asked.append(model))
    requests = [
        replace(WORKLOAD.requests[0], fields=fields)
        for fields in ({"model": "a"}, {"model": "gpt"}, {})
    ]
    engine.follow([(request, "text") for request in requests], 0.1)
    assert sorted(asked) == sorted(["a", base.name, base.name])


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({}, (1, 2)),
        ({"tools": [{}], "tool_choice": "auto"}, (1, 2)),
        ({"tools": [{}], "tool_choice": "none"}, None),
        ({"reasoning_effort": "low"}, None),
    ],
)
def test_a_chat_that_tokenize_would_render_otherwise_is_not_led(
    engines, monkeypatch, fields, tokens
):
    engine = engines()
    monkeypatch.setattr(engine._served, "adapter", replace(ADAPTER, tokenize="prompt"))
    engine._served.model()
    answer = {"tokens": [1, 2]}
    monkeypatch.setattr("assay.improve.engines.served.exchange_json", lambda *_, **__: answer)
    said = ({"role": "user", "content": "Why?"},)
    chat = PlannedRequest(0, "Why?", 4, fields=fields, messages=said)
    assert engine._served.rendered(chat) == tokens
