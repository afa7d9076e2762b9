"""CUPTI in this process: records become events, and what is missing is said."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

SESSION = """
import json
from assay._native import CuptiSession

def rows(table):
    import polars
    frame = polars.DataFrame(table)
    return json.loads(frame.write_json())

def report(**facts):
    print(json.dumps(facts))
"""


def facts(finished: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert finished.returncode == 0, finished.stderr
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


# CUDA 12.0, 12.9, 13.0 and 13.4 have records of different lengths.
@pytest.mark.parametrize("version", ["19", "28", "130000", "130401"])
def test_every_kind_of_record_becomes_an_event(run_script: Run, version: str) -> None:
    found = facts(
        run_script(
            SESSION
            + """
session = CuptiSession(folders=[], activities=[
    "kernel", "memcpy", "memset", "sync", "api", "nvtx", "overhead"])
before = time.time_ns()
name, domain = ctypes.create_string_buffer(b'pre"fill'), ctypes.create_string_buffer(b"engine")
cuda.fake_range_push(name, domain)
launch(2, graph=5, name=b"_ZN2at6native4copyILi4EEEvif")
cuda.fake_copy(1 << 33)
cuda.fake_peer_copy(64)
cuda.fake_fill(256)
cuda.fake_call(99, ctypes.create_string_buffer(b"triton_mm"))
cuda.fake_synchronize()
cuda.fake_overhead()
cuda.fake_range_pop()
table = session.stop()
report(events=rows(table), dropped=session.dropped, degradations=session.degradations,
       version=session.version, clock=session.clock, before=before, after=time.time_ns(),
       pid=os.getpid())
""",
            FAKE_CUPTI_VERSION=version,
        )
    )
    assert (found["version"], found["clock"]) == (int(version), "realtime")
    assert (found["dropped"], found["degradations"]) == (0, [])
    events = found["events"]
    assert all(found["before"] - 10**6 <= e["start_ns"] <= found["after"] for e in events)
    by_name = {event["name"]: event for event in events}
    first, second, *_ = [e for e in events if e["kind"] == "kernel"]
    assert first["name"] == "void at::native::copy<4>(int, float)"
    assert (first["graph"], first["node"]) == (5, (5 << 32) + 1)
    assert (second["graph"], second["node"]) == (5, (5 << 32) + 2)
    assert (first["dur_ns"], first["device"], first["stream"]) == (1000, 0, 7)
    assert (first["grid"], first["block"]) == ([132, 2, 1], [256, 1, 1])
    assert json.loads(first["args"]) == {
        "context": 1, "registers": 32, "static_shared": 0, "dynamic_shared": 4096,
    }  # fmt: skip
    assert (second["correlation"] - first["correlation"], first["pid"]) == (1, found["pid"])
    copied = by_name["Memcpy HtoD (Pinned -> Device)"]
    assert (copied["kind"], copied["bytes"], copied["dur_ns"]) == ("memcpy", 1 << 33, 500)
    assert (copied["graph"], copied["node"]) == (None, None)
    peer = by_name["Memcpy PtoP (Device -> Device)"]
    assert json.loads(peer["args"])["to_device"] == 1
    filled = by_name["Memset (Device)"]
    assert (filled["kind"], filled["bytes"], json.loads(filled["args"])["value"]) == (
        "memset", 256, 9,
    )  # fmt: skip
    call, launched = by_name["cudaLaunchKernel"], by_name["triton_mm"]
    assert (call["kind"], call["category"], call["tid"]) == ("api", "cuda_runtime", 77)
    assert call["correlation"] == launched["correlation"]
    assert call["external"] == launched["external"] == 99
    assert by_name["Context Synchronize"]["kind"] == "sync"
    assert by_name["Context Synchronize"]["stream"] is None
    assert by_name["Activity Buffer Flush"]["kind"] == "overhead"
    prefill = by_name['pre"fill']
    assert (prefill["kind"], prefill["category"], prefill["tid"]) == ("range", "nvtx", 77)
    assert json.loads(prefill["args"]) == {"domain": "engine"}
    end = prefill["start_ns"] + prefill["dur_ns"]
    assert all(prefill["start_ns"] <= e["start_ns"] + e["dur_ns"] <= end for e in events[:-1])
    assert len(events) == 10


def test_many_kernels_come_once_each_and_in_order(run_script: Run) -> None:
    found = facts(
        run_script(
            SESSION
            + """
session = CuptiSession(folders=[], period_s=0.01)
for number in range(60):
    launch(500)
    time.sleep(0.001)
first = rows(session.drain())
launch(1)
last = rows(session.stop())
report(correlations=[event["correlation"] for event in first + last], last=len(last))
"""
        )
    )
    assert sorted(found["correlations"]) == list(range(1, 30_002))
    assert found["last"] >= 1


def test_lost_and_unfinished_work_is_counted(run_script: Run) -> None:
    found = facts(
        run_script(
            SESSION
            + """
session = CuptiSession(folders=[], period_s=0.01)
launch(3)
cuda.fake_drop(17)
cuda.fake_launch_endless(ctypes.create_string_buffer(b"endless"))
name = ctypes.create_string_buffer(b"open")
cuda.fake_range_push(name, None)
events = rows(session.stop())
report(names=[event["name"] for event in events], dropped=session.dropped,
       incomplete=session.incomplete, args=[event["args"] for event in events])
"""
        )
    )
    assert found["names"] == ["kernel(int, float)"] * 3 + ["open"]
    assert (found["dropped"], found["incomplete"]) == (17, 1)
    assert json.loads(found["args"][-1]) == {"domain": "", "open": True}


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"FAKE_CUPTI_VERSION": "18"}, "cupti_version", "CUPTI of CUDA 12 or 13 expected; got "),
        (
            {"FAKE_CUPTI_VERSION": "140000"},
            "cupti_version",
            "CUPTI of CUDA 12 or 13, not later than the driver's CUDA 13, expected; got ",
        ),
        (
            {"FAKE_DRIVER_VERSION": "12080"},
            "cupti_version",
            "CUPTI of CUDA 12 or 13, not later than the driver's CUDA 12, expected; got ",
        ),
        ({"FAKE_OTHER_SUBSCRIBER": "1"}, "other_subscriber", "CUPTI is taken by another profiler"),
        ({"FAKE_FAILING_KIND": "10"}, "cupti_failed", "cuptiActivityEnable failed: CUPTI_ERROR"),
    ],
)
def test_why_nothing_is_recorded(
    run_script: Run, settings: dict[str, str], code: str, message: str
) -> None:
    found = facts(
        run_script(
            SESSION
            + """
from assay.errors import DeviceError
try:
    CuptiSession(folders=[])
except DeviceError as error:
    report(code=error.code, message=error.message, hint=error.hint, **tool())
""",
            **settings,
        )
    )
    assert (found["code"], found["message"][: len(message)]) == (code, message)
    assert (found["subscribed"], found["enabled"]) == (0, 0)


def test_a_kind_that_fails_is_a_degradation(run_script: Run) -> None:
    found = facts(
        run_script(
            SESSION
            + """
session = CuptiSession(folders=[], activities=["kernel", "nvtx"])
launch(2)
report(events=len(session.stop()), degradations=session.degradations)
""",
            FAKE_FAILING_KIND="12",
        )
    )
    assert found["events"] == 2
    assert found["degradations"] == [
        "no nvtx records: cuptiActivityEnable failed: CUPTI_ERROR_UNKNOWN (999)"
    ]


def test_one_session_at_a_time_and_another_afterwards(run_script: Run) -> None:
    found = facts(
        run_script(
            SESSION
            + """
from assay.errors import DeviceError, InputError
session = CuptiSession(folders=[])
codes = []
for arguments in ({}, {"activities": ["kernels"]}, {"period_s": 2.0}):
    try:
        CuptiSession(folders=[], **arguments)
    except (DeviceError, InputError) as error:
        codes.append(f"{error.code}: {error.message}")
launch(1)
counts = [len(session.stop()), len(session.stop())]
with_another = CuptiSession(folders=[])
launch(5)
report(codes=codes, counts=[*counts, len(with_another.stop())], **tool())
"""
        )
    )
    assert found["codes"] == [
        "cupti_busy: a CUPTI session records already",
        "invalid: activity: expected one of kernel, memcpy, memset, sync, api, nvtx, overhead, "
        'graph, got "kernels"',
        "invalid: period: expected 0.01 to 0.5 s, got 2",
    ]
    assert found["counts"] == [1, 0, 5]
    assert (found["subscribed"], found["enabled"]) == (0, 0)
