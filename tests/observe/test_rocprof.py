"""rocprofv3: CSV as in its documentation, and JSON with its keys."""

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assay.errors import InputError
from assay.observe.importers.detect import open_trace

KERNELS = """\
"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",\
"Correlation_Id","Start_Timestamp","End_Timestamp","Private_Segment_Size","Group_Segment_Size",\
"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"KERNEL_DISPATCH","Agent 2",1,1,21228,1,11,"void addition_kernel<float>(float*, int)",1937,\
2414192765353337,2414192765369494,0,0,64,1,1,1024,1024,1
"KERNEL_DISPATCH",3,2,2,21228,5,11,"divide_kernel(float*, int)",1969,\
2414192765608844,2414192765600000,0,0,64,1,1,1000,1,1
"""
COPIES = """\
"Kind","Direction","Stream_Id","Source_Agent_Id","Destination_Agent_Id","Correlation_Id",\
"Start_Timestamp","End_Timestamp"
"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",1,0,2,952,2414192684609085,2414192684710679
"""
CALLS = """\
"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"HIP_RUNTIME_API","hipMalloc",238,238,2,1191915691312459,1191915691388696
"HIP_RUNTIME_API","hipLaunchKernel",238,238,1937,1191916547842972,1191916548408842
"HIP_RUNTIME_API","hipFree",238,238,2,x,7
"""
MARKERS = """\
"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"MARKER_CORE_API","before hipLaunchKernel",717,717,1,1520113899312225,1520113899312225
"MARKER_CORE_API","hipMemcpy",717,717,5,1520113900141100,1520113901483408
"""
AGENTS = """\
"Node_Id","Logical_Node_Id","Agent_Type","Cu_Count","Max_Engine_Clk_Fcompute","Name","Product_Name"
0,0,"CPU",24,0,"AMD Ryzen 9","AMD Ryzen 9"
2,1,"GPU",304,2100,"gfx942","AMD Instinct MI300X"
3,2,"GPU",304,2100,"gfx942","AMD Instinct MI300X"
"""


def test_a_folder_of_tables_is_one_trace(tmp_path: Path) -> None:
    for name, text in (
        ("1_kernel_trace.csv", KERNELS), ("1_memory_copy_trace.csv", COPIES),
        ("1_hip_api_trace.csv", CALLS), ("1_marker_api_trace.csv", MARKERS),
        ("1_agent_info.csv", AGENTS), ("other.csv", "a,b\n1,2\n"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
    trace = open_trace(tmp_path)
    assert trace.events.select("kind", "name", "device", "stream", "dur_ns").rows() == [
        ("api", "hipMalloc", None, None, 76237),
        ("api", "hipLaunchKernel", None, None, 565870),
        ("instant", "before hipLaunchKernel", None, None, 0),
        ("range", "hipMemcpy", None, None, 1342308),
        ("memcpy", "MEMORY_COPY_HOST_TO_DEVICE", 0, 1, 101594),
        ("kernel", "void addition_kernel<float>(float*, int)", 0, 1, 16157),
        ("kernel", "divide_kernel(float*, int)", 1, 2, 0),
    ]
    kernels = trace.events.filter(pl.col("kind") == "kernel")
    assert kernels["grid"].to_list() == [[16, 1024, 1], [16, 1, 1]]
    assert kernels["block"].to_list() == [[64, 1, 1], [64, 1, 1]]
    assert json.loads(kernels["args"][1])["Grid_Size_X"] == "1000"
    assert trace.header.repairs == {
        "negative duration set to zero": 1, "event without a start left out": 1,
    }  # fmt: skip
    assert trace.header.hardware["devices"]["0"] == {
        "name": "AMD Instinct MI300X", "architecture": "gfx942", "compute_units": 304,
        "maximum_clock_mhz": 2100, "node_id": 2, "logical_node_id": 1,
    }  # fmt: skip


def test_one_table_alone(tmp_path: Path) -> None:
    path = tmp_path / "anything"
    path.write_text(KERNELS)
    trace = open_trace(path)
    assert trace.events["device"].to_list() == [2, 3]
    assert trace.header.degradations == [
        "no agent_info.csv: devices have the numbers of their agents",
        "the trace has no API calls: record with --hip-trace",
    ]


def document(**changes: Any) -> dict[str, Any]:
    times = {"start_timestamp": 100, "end_timestamp": 150, "thread_id": 8}
    tool = {
        "metadata": {"pid": 7, "init_time": 1, "fini_time": 2, "command": ["./app", "-x"]},
        "agents": [
            {"id": {"handle": 11}, "type": 1, "name": "cpu"},
            {"id": {"handle": 12}, "type": 2, "name": "gfx942", "product_name": "MI300X",
             "cu_count": 304, "max_engine_clk_fcompute": 2100},
        ],
        "strings": {
            "buffer_records": [
                {"kind": "NONE", "operations": []},
                {"kind": "HIP_RUNTIME_API", "operations": ["none", "hipLaunchKernel"]},
                {"kind": "KERNEL_DISPATCH", "operations": ["NONE", "COMPLETE"]},
                {"kind": "MARKER_CORE_API", "operations": ["roctxMarkA", "roctxRangePushA"]},
                {"kind": "MEMORY_COPY", "operations": ["NONE", "HOST_TO_DEVICE"]},
            ],
            "marker_api": [{"key": 6, "value": "step 1"}],
        },
        "kernel_symbols": [{"kernel_id": 3, "formatted_kernel_name": "transpose(float*)"}],
        "buffer_records": {
            "kernel_dispatch": [{
                **times, "kind": 2, "operation": 1, "size": 160,
                "correlation_id": {"internal": 5, "external": 0},
                "dispatch_info": {
                    "agent_id": {"handle": 12}, "queue_id": {"handle": 1}, "kernel_id": 3,
                    "workgroup_size": {"x": 4, "y": 4, "z": 1},
                    "grid_size": {"x": 1024, "y": 1024, "z": 1},
                },
            }],
            "hip_api": [{**times, "start_timestamp": 10, "kind": 1, "operation": 1,
                         "correlation_id": {"internal": 5, "external": 9}}],
            "marker_api": [{**times, "start_timestamp": 5, "kind": 3, "operation": 1,
                            "correlation_id": {"internal": 6, "external": 0}}],
            "memory_copy": [{**times, "start_timestamp": 60, "kind": 4, "operation": 1,
                             "correlation_id": {"internal": 4, "external": 0}, "bytes": 64,
                             "src_agent_id": {"handle": 11}, "dst_agent_id": {"handle": 12}}],
            **changes,
        },
    }  # fmt: skip
    return {"rocprofiler-sdk-tool": [tool]}


def test_json(tmp_path: Path) -> None:
    (tmp_path / "results").write_text(json.dumps(document()))
    trace = open_trace(tmp_path / "results")
    columns = ("kind", "name", "start_ns", "dur_ns", "device", "stream", "correlation", "pid")
    assert trace.events.select(columns).rows() == [
        ("range", "step 1", 5, 145, None, None, 6, 7),
        ("api", "hipLaunchKernel", 10, 140, None, None, 5, 7),
        ("memcpy", "HOST_TO_DEVICE", 60, 90, 0, None, 4, 7),
        ("kernel", "transpose(float*)", 100, 50, 0, 1, 5, 7),
    ]
    assert trace.events["grid"].drop_nulls().to_list() == [[256, 256, 1]]
    assert trace.header.hardware["devices"]["0"]["name"] == "MI300X"
    assert trace.header.processes == {"7": "./app"}
    assert trace.header.repairs == {}


@pytest.mark.parametrize(
    ("changes", "repairs"),
    [
        ({"kernel_dispatch": [5, None, {}]}, {
            "record that is not an object with times left out": 2,
            "event without a start left out": 1, "record whose name the file does not have": 1}),
        ({"kernel_dispatch": [{"start_timestamp": 9, "end_timestamp": 3, "dispatch_info": "x"}]}, {
            "negative duration set to zero": 1, "record whose name the file does not have": 1}),
        ({"hip_api": [{"start_timestamp": 1, "end_timestamp": 2, "kind": 1, "operation": 1,
                       "correlation_id": {"internal": 5}}] * 2}, {
            "API call with the correlation of another one": 1}),
        ({"kernel_dispatch": [{"start_timestamp": 2**70, "end_timestamp": 2**70}]}, {
            "event without a start left out": 1, "record whose name the file does not have": 1}),
    ],
)  # fmt: skip
def test_repairs_are_counted(tmp_path: Path, changes: Any, repairs: Any) -> None:
    (tmp_path / "results").write_text(json.dumps(document(**changes)))
    assert open_trace(tmp_path / "results").header.repairs == repairs


@pytest.mark.parametrize(
    "text",
    [
        '{"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": [',
        '{"rocprofiler-sdk-tool": 5}',
        '{"rocprofiler-sdk-tool": []}',
        KERNELS.splitlines()[0] + "\n",
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "results").write_text(text)
    with pytest.raises(InputError, match=r"results: expected"):
        open_trace(tmp_path / "results")


def test_damage_is_named_or_repaired(tmp_path: Path) -> None:
    numbers = random.Random(5)
    path = tmp_path / "results"
    outcomes = set()
    for whole in (json.dumps(document()), KERNELS):
        for _ in range(60):
            data = bytearray(whole.encode())
            for _ in range(numbers.randrange(1, 5)):
                place = numbers.randrange(30, len(data))
                data[place : place + numbers.randrange(8)] = numbers.choice(
                    [b"-1", b'"', b"null", b"{}", b"9" * 25, b"\xff", b",", b"1.5", b"\x00"]
                )
            path.write_bytes(data)
            try:
                events = open_trace(path).events
                outcomes.add("read" if (events["dur_ns"] >= 0).all() else "negative duration")
            except InputError as error:
                outcomes.add("named" if str(path) in error.message else error.message)
    assert outcomes == {"named", "read"}
