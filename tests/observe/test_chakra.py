"""Chakra execution traces, read and written with protobuf and the published message types."""

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from assay.errors import InputError
from assay.observe import schema
from assay.observe.exporters import chakra
from assay.observe.header import TraceHeader
from assay.observe.importers.detect import open_trace
from assay.observe.trace import Trace

TYPES = {"double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9}


def messages() -> dict[str, Any]:
    """The messages of et_def.proto that are used here."""
    file = descriptor_pb2.FileDescriptorProto(
        name="et_def.proto", syntax="proto3", package="chakra"
    )
    fields = {
        "Int32List": [("values", 1, "int32", True)],
        "AttributeProto": [
            ("name", 1, "string", False), ("double_val", 3, "double", False),
            ("float_val", 5, "float", False), ("int32_list", 8, "Int32List", False),
            ("int64_val", 9, "int64", False), ("uint64_val", 13, "uint64", False),
            ("bool_val", 27, "bool", False), ("string_val", 29, "string", False),
        ],
        "GlobalMetadata": [("version", 1, "string", False), ("attr", 2, "AttributeProto", True)],
        "IOInfo": [("values", 1, "string", False), ("shapes", 2, "string", False)],
        "Node": [
            ("id", 1, "uint64", False), ("name", 2, "string", False), ("type", 3, "int32", False),
            ("ctrl_deps", 4, "uint64", True), ("data_deps", 5, "uint64", True),
            ("start_time_micros", 6, "uint64", False), ("duration_micros", 7, "uint64", False),
            ("inputs", 8, "IOInfo", False), ("attr", 10, "AttributeProto", True),
        ],
    }  # fmt: skip
    for name, members in fields.items():
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for label, number, kind, repeated in members:
            one = message.field.add(name=label, number=number, label=3 if repeated else 1)
            if name == "AttributeProto" and label != "name":
                one.oneof_index = 0
            if kind in TYPES:
                one.type = TYPES[kind]  # type: ignore[assignment]
            else:
                one.type, one.type_name = 11, f".chakra.{kind}"  # type: ignore[assignment]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"chakra.{name}"))
        for name in fields
    }


MESSAGES = messages()


def decode(data: bytes) -> tuple[Any, list[Any]]:
    found, position = [], 0
    while position < len(data):
        size = shift = 0
        while True:
            byte = data[position]
            position, size, shift = position + 1, size | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        kind = MESSAGES["Node"] if found else MESSAGES["GlobalMetadata"]
        found.append(kind.FromString(data[position : position + size]))
        position += size
    return found[0], found[1:]


def encode(*found: Any) -> bytes:
    data = b""
    for one in found:
        message, size = one.SerializeToString(), b""
        length = len(message)
        while length > 127:
            size, length = size + bytes([length & 127 | 128]), length >> 7
        data += size + bytes([length]) + message
    return data


def rows() -> list[dict[str, Any]]:
    host = {"pid": 1, "tid": 2}
    stream = {"device": 0, "stream": 7}
    return [
        {"kind": "host", "name": "step", "start_ns": 0, "dur_ns": 90_000, **host},
        {"kind": "api", "name": "cudaLaunchKernel", "start_ns": 1500, "dur_ns": 2999,
         "correlation": 5, **host},
        {"kind": "api", "name": "cudaLaunchKernel", "start_ns": 5000, "dur_ns": 1000,
         "correlation": 6, **host},
        {"kind": "kernel", "name": "gemm", "start_ns": 10_001, "dur_ns": 5_999, "correlation": 5,
         "grid": [1, -2, 3], **stream},
        {"kind": "kernel", "name": "ncclDevKernel_AllReduce_Sum", "start_ns": 15_000,
         "dur_ns": 9_000, "correlation": 6, "bytes": 4096, **stream},
        {"kind": "kernel", "name": "other stream", "start_ns": 16_000, "dur_ns": 1, "device": 0,
         "stream": 8},
        {"kind": "range", "name": "annotation", "start_ns": 95_000, "dur_ns": 1, **host},
    ]  # fmt: skip


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    trace = Trace(TraceHeader(), pl.DataFrame(rows(), schema=schema.event_columns()))
    chakra.write(trace, tmp_path / "trace.et")
    return tmp_path / "trace.et"


def test_nodes_have_times_types_and_dependencies(exported: Path) -> None:
    metadata, nodes = decode(exported.read_bytes())
    assert metadata.version == "1.0.0"
    assert [node.name for node in nodes] == [row["name"] for row in rows()]
    assert [(one.start_time_micros, one.duration_micros) for one in nodes[:4]] == [
        (0, 90), (1, 2), (5, 1), (10, 5),
    ]  # fmt: skip
    assert [one.type for one in nodes] == [4, 4, 4, 4, 7, 4, 1]
    assert [list(one.ctrl_deps) for one in nodes] == [[], [0], [0], [], [], [], []]
    # From call to kernel, and from kernel to kernel along stream 7.
    assert [list(one.data_deps) for one in nodes] == [[], [], [1], [1], [2, 3], [], [0]]
    attributes = [{one.name: one for one in node.attr} for node in nodes]
    assert [one["is_cpu_op"].bool_val for one in attributes[:4]] == [True, True, True, False]
    assert attributes[3]["start_ns"].int64_val == 10_001
    assert list(attributes[3]["grid"].int32_list.values) == [1, -2, 3]
    assert attributes[4]["comm_type"].int64_val == 0
    assert attributes[4]["comm_size"].int64_val == 4096
    assert "comm_type" not in attributes[3]


def foreign() -> list[Any]:
    node, attribute = MESSAGES["Node"], MESSAGES["AttributeProto"]
    return [
        MESSAGES["GlobalMetadata"](version="0.0.4"),
        node(id=10, name="aten::mm", type=4, start_time_micros=5, duration_micros=7,
             inputs={"values": "[1]", "shapes": "[[2, 3]]"},
             attr=[attribute(name="is_cpu_op", bool_val=True), attribute(name="tid", int64_val=3)]),
        node(id=11, name="gemm", type=4, start_time_micros=15, duration_micros=2**64 - 5,
             data_deps=[10], ctrl_deps=[10],
             attr=[attribute(name="is_cpu_op", bool_val=False),
                   attribute(name="stream", int64_val=7),
                   attribute(name="x", double_val=float("nan"))]),
        node(id=12, name="all-reduce", type=7, start_time_micros=1,
             attr=[attribute(name="comm_size", int64_val=64)]),
    ]  # fmt: skip


def test_a_trace_of_another_tool(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(encode(*foreign()))
    trace = open_trace(path)
    assert trace.events.select("kind", "name", "start_ns", "dur_ns", "stream", "tid", "bytes").rows(
    ) == [
        ("host", "aten::mm", 5000, 7000, None, 3, None),
        ("kernel", "gemm", 15000, 0, 7, None, None),
        ("kernel", "all-reduce", 1000, 0, None, None, 64),
    ]  # fmt: skip
    args = [json.loads(text) for text in trace.events["args"]]
    assert args[0] == {"id": 10, "type": "COMP_NODE", "attr": {"is_cpu_op": True},
                       "inputs": {"values": "[1]", "shapes": "[[2, 3]]"}}  # fmt: skip
    assert (args[1]["data_deps"], args[1]["ctrl_deps"]) == ([10], [10])
    assert args[1]["attr"]["x"] == "nan"
    assert trace.header.versions == {"chakra": "0.0.4"}
    assert trace.header.repairs == {"negative duration set to zero": 1}


def test_damage_is_named(tmp_path: Path, exported: Path) -> None:
    numbers = random.Random(3)
    path = tmp_path / "damaged"
    for whole in (exported.read_bytes(), encode(*foreign())):
        outcomes = set()
        for attempt in range(100):
            data = bytearray(whole)
            if attempt % 2:
                data = data[: numbers.randrange(12, len(data))]
            for _ in range(attempt % 3):
                data[numbers.randrange(10, len(data))] = numbers.randrange(256)
            path.write_bytes(data)
            try:
                outcomes.add(str(type(open_trace(path)).__name__))
            except InputError as error:
                outcomes.add("named" if str(path) in error.message else error.message)
        assert outcomes <= {"named", "Trace"}
        assert "named" in outcomes
