"""rocprofv3: the JSON file, or the CSV files, that ROCm's profiler writes.

A CSV file holds one kind of record; a folder of them is one trace. A grid of AMD is counted in
work-items: it is divided by the workgroup, as CUDA counts it, and its own size is in `args`.

See https://rocm.docs.amd.com/projects/rocprofiler-sdk. It has not met the hardware: these readers
were written from the documentation and its sample files.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.importers import frames
from assay.observe.trace import Trace

READS: Final = "rocprofv3 (json, csv)"
TOOL: Final = "rocprofiler-sdk-tool"
"""The key of the JSON file that holds everything."""

RECORDS: Final = {
    "kernel_dispatch": "kernel",
    "kernel_dispatches": "kernel",
    "memory_copy": "memcpy",
    "hip_api": "api",
    "hsa_api": "api",
    "rccl_api": "api",
    "rocdecode_api": "api",
    "rocjpeg_api": "api",
    "marker_api": "range",
    "scratch_memory": "overhead",
    "memory_allocation": "api",
}
"""Buffers of the JSON file, and what their records are."""

NO_NAME: Final = "record whose name the file does not have"
BAD_RECORD: Final = "record that is not an object with times left out"


def recognizes(path: Path, head: bytes) -> bool:
    """Whether it is the JSON file, one of the CSV files, or a folder of them."""
    if path.is_dir():
        return any(is_csv(file) for file in path.rglob("*.csv"))
    return bool(re.match(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:', head)) or is_csv(path)


def read(path: Path, *, progress: Callable[[str], None] | None = None) -> Trace:
    """Read a trace of rocprofv3: a JSON file, a CSV file, or a folder of CSV files."""
    repairs: Counter[str] = Counter()
    header = TraceHeader(source="rocprofv3", clock="monotonic")
    if path.is_dir() or not _is_json(path):
        rows = _read_csv(path, header, repairs, progress)
    else:
        rows = _read_json(path, header, repairs, progress)
    if not rows:
        raise InputError(f"{path}: expected records of rocprofv3, got none that can be used")
    events = pl.DataFrame(
        rows, schema={**_row_schema(), "start": pl.Int64, "end": pl.Int64}, orient="row"
    )
    events = frames.with_durations(events, repairs)
    calls = events.filter((pl.col("kind") == "api") & pl.col("correlation").is_not_null())
    if twice := len(calls) - len(calls.unique(["pid", "category", "correlation"])):
        repairs["API call with the correlation of another one"] += twice
    events = events.sort(["start_ns", "dur_ns"], descending=[False, True], maintain_order=True)
    header.repairs = dict(repairs)
    if "api" not in set(events["kind"]):
        header.degradations.append("the trace has no API calls: record with --hip-trace")
    return Trace(header, frames.checked(schema.complete(events), str(path)))


def _row_schema() -> dict[str, Any]:
    columns = schema.event_columns()
    return {name: columns[name] for name in columns if name not in ("start_ns", "dur_ns")}


def _is_json(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1 << 12).lstrip().startswith(b"{")


def _integer(value: Any, bits: int = 64) -> int | None:
    """A number of so many bits, also where it is text; None for anything else."""
    if isinstance(value, str):
        matched = re.fullmatch(r"(?:Agent\s+)?(-?\d{1,20})", value.strip())
        value = int(matched[1]) if matched else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def _blocks(items: list[int | None], group: list[int | None]) -> list[int] | None:
    """Workgroups of a grid that is given in work-items."""
    if any(size is None or size <= 0 for size in (*items, *group)):
        return None
    blocks = [-(-(item or 0) // (size or 1)) for item, size in zip(items, group, strict=True)]
    return blocks if max(blocks) < 2**31 else None


# JSON


def _read_json(
    path: Path, header: TraceHeader, repairs: Counter[str],
    progress: Callable[[str], None] | None,
) -> list[dict[str, Any]]:  # fmt: skip
    if progress:
        progress(f"reading {path.name}")
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected JSON, got: {str(error)[:200]}") from None
    tools = data.get(TOOL) if isinstance(data, dict) else None
    # Early versions have one object where later ones have a list, an object for each process.
    tools = [tools] if isinstance(tools, dict) else tools
    if not isinstance(tools, list):
        raise InputError(f'{path}: expected the key "{TOOL}" of rocprofv3')
    rows: list[dict[str, Any]] = []
    for tool in tools:
        if isinstance(tool, dict):
            rows += _process(tool, header, repairs)
    return rows


def _process(
    tool: dict[str, Any], header: TraceHeader, repairs: Counter[str]
) -> list[dict[str, Any]]:
    metadata = _object(tool.get("metadata"))
    pid = _integer(metadata.get("pid"))
    if metadata:
        header.metadata.setdefault("processes", []).append(
            {name: metadata[name] for name in metadata if name != "config"}
        )
    command = metadata.get("command")
    if pid is not None and isinstance(command, list) and command:
        header.processes[str(pid)] = str(command[0])
    devices = _agents(tool.get("agents"), header)
    names = _names(_object(_object(tool.get("strings")).get("buffer_records")), tool)
    markers = _markers(_object(tool.get("strings")).get("marker_api"))
    kernels = {
        _integer(symbol.get("kernel_id")): str(
            symbol.get("formatted_kernel_name")
            or symbol.get("demangled_kernel_name")
            or symbol.get("kernel_name")
            or ""
        )
        for symbol in _objects(tool.get("kernel_symbols"))
    }
    rows = []
    for buffer, records in _object(tool.get("buffer_records")).items():
        if buffer not in RECORDS or not isinstance(records, list):
            continue
        for record in records:
            if not isinstance(record, dict):
                repairs[BAD_RECORD] += 1
                continue
            row = _record(buffer, record, names, markers, kernels, devices, repairs)
            row["pid"] = pid
            rows.append(row)
    return rows


def _record(
    buffer: str, record: dict[str, Any], names: dict[tuple[int, int], tuple[str, str]],
    markers: dict[int, str], kernels: dict[int | None, str], devices: dict[int, int],
    repairs: Counter[str],
) -> dict[str, Any]:  # fmt: skip
    rest = dict(record)
    kind = RECORDS[buffer]
    identity = _object(rest.pop("correlation_id", None))
    number = (_integer(rest.pop("kind", None)) or 0, _integer(rest.pop("operation", None)) or 0)
    category, name = names.get(number, (buffer.upper(), ""))
    row: dict[str, Any] = {
        "kind": kind,
        "category": category,
        "start": _integer(rest.pop("start_timestamp", None)),
        "end": _integer(rest.pop("end_timestamp", None)),
        "tid": _integer(rest.pop("thread_id", None)),
        "correlation": _integer(identity.get("internal")),
        "external": _integer(identity.get("external")) or None,
        "stream": _integer(_object(rest.pop("stream_id", None)).get("handle")),
        "bytes": _integer(rest.pop("bytes", None)),
    }
    rest.pop("size", None)
    if kind == "kernel":
        info = _object(rest.pop("dispatch_info", None))
        name = kernels.get(_integer(info.get("kernel_id")), "")
        group, items = (
            [_integer(_object(info.get(part)).get(axis)) for axis in "xyz"]
            for part in ("workgroup_size", "grid_size")
        )
        row["grid"] = _blocks(items, group)
        row["block"] = group if row["grid"] else None
        row["device"] = devices.get(_handle(info.get("agent_id")) or -1)
        if row["stream"] is None:
            row["stream"] = _handle(info.get("queue_id"))
        rest["dispatch_info"] = info
    elif kind == "memcpy":
        ends = [devices.get(_handle(rest.get(f"{end}_agent_id")) or -1) for end in ("dst", "src")]
        row["device"] = ends[0] if ends[0] is not None else ends[1]
    elif kind == "range":
        name = markers.get(row["correlation"] or -1) or name
        if row["start"] == row["end"] and row["start"] is not None:
            row["kind"] = "instant"
    if not name:
        repairs[NO_NAME] += 1
    row["name"] = name or category.lower()
    row["args"] = json.dumps(rest) if rest else None
    return row


def _agents(agents: Any, header: TraceHeader) -> dict[int, int]:
    """Numbers of devices by handle, counted among GPUs; what they are goes to the header."""
    numbers: dict[int, int] = {}
    for agent in _objects(agents):
        # 1 is a CPU, 2 a GPU.
        if agent.get("type") not in (2, "GPU"):
            continue
        number = len(header.hardware.get("devices", {}))
        handle = _handle(agent.get("id"))
        if handle is not None:
            numbers[handle] = number
        _add_device(header, number, agent)
    return numbers


def _add_device(header: TraceHeader, number: int, agent: dict[str, Any]) -> None:
    wanted = {
        "name": ("product_name", "Product_Name", "model_name", "Model_Name", "name", "Name"),
        "architecture": ("name", "Name"),
        "compute_units": ("cu_count", "Cu_Count"),
        "maximum_clock_mhz": ("max_engine_clk_fcompute", "Max_Engine_Clk_Fcompute"),
        "node_id": ("node_id", "Node_Id"),
        "logical_node_id": ("logical_node_id", "Logical_Node_Id"),
    }
    values = {
        label: next((agent[key] for key in keys if agent.get(key) not in (None, "")), None)
        for label, keys in wanted.items()
    }
    devices = header.hardware.setdefault("devices", {})
    devices[str(number)] = {
        label: _integer(value) if isinstance(value, str) and value.isdigit() else value
        for label, value in values.items()
        if value is not None
    }


def _names(buffers: dict[str, Any], tool: dict[str, Any]) -> dict[tuple[int, int], tuple[str, str]]:
    """Kind and operation of a record by their numbers."""
    listed = _object(tool.get("strings")).get("buffer_records")
    kinds = listed if isinstance(listed, list) else list(buffers.values())
    names = {}
    for number, kind in enumerate(kinds):
        if isinstance(kind, dict):
            label = str(kind.get("kind", number))
            operations = kind.get("operations")
            for place, name in enumerate(operations if isinstance(operations, list) else []):
                names[number, place] = (label, str(name))
    return names


def _markers(listed: Any) -> dict[int, str]:
    """Texts of markers by correlation."""
    pairs = (
        ((marker.get("key"), marker.get("value")) for marker in _objects(listed))
        if isinstance(listed, list)
        else _object(listed).items()
    )
    return {
        number: str(text) for key, text in pairs if (number := _integer(key)) is not None and text
    }


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    items = value if isinstance(value, list) else list(_object(value).values())
    return (item for item in items if isinstance(item, dict))


def _handle(value: Any) -> int | None:
    return _integer(value.get("handle")) if isinstance(value, dict) else _integer(value)


# CSV


def _read_csv(
    path: Path, header: TraceHeader, repairs: Counter[str],
    progress: Callable[[str], None] | None,
) -> list[dict[str, Any]]:  # fmt: skip
    files = sorted(path.rglob("*.csv")) if path.is_dir() else [path]
    beside = [] if path.is_dir() else list(path.parent.glob("*agent_info.csv"))
    tables = {}
    for file in (*files, *beside):
        if file not in tables and is_csv(file):
            if progress:
                progress(f"reading {file.name}")
            tables[file] = _table(file)
    if not any("Start_Timestamp" in table.columns for table in tables.values()):
        raise InputError(f"{path}: expected CSV files of rocprofv3, got none")
    devices: dict[int, int] = {}
    for table in tables.values():
        for row in table.iter_rows(named=True) if "Agent_Type" in table.columns else ():
            if row["Agent_Type"] == "GPU":
                number = len(header.hardware.get("devices", {}))
                _add_device(header, number, row)
                for key in ("Node_Id", "Logical_Node_Id"):
                    if (handle := _integer(row.get(key))) is not None:
                        devices.setdefault(handle, number)
    rows = []
    for file, table in tables.items():
        if "Start_Timestamp" in table.columns:
            rows += [_csv_row(row, devices, repairs) for row in table.iter_rows(named=True)]
        header.metadata.setdefault("files", []).append(file.name)
    if not devices:
        header.degradations.append("no agent_info.csv: devices have the numbers of their agents")
    return rows


def is_csv(path: Path) -> bool:
    """Whether a file is a table of rocprofv3: its first line has the names of its columns."""
    try:
        with path.open("rb") as file:
            first = file.readline(1 << 13)
    except OSError:
        return False
    names = first.replace(b'"', b"").split(b",")
    if b"Agent_Type" in names and b"Node_Id" in names:
        return True
    return b"Start_Timestamp" in names and bool({b"Kind", b"Domain"} & set(names))


def _table(path: Path) -> pl.DataFrame:
    try:
        return pl.read_csv(path, infer_schema=False)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        message = str(error).partition("\n")[0][:200]
        raise InputError(f"{path}: expected CSV, got: {message}") from None


def _csv_row(
    record: dict[str, str | None], devices: dict[int, int], repairs: Counter[str]
) -> dict[str, Any]:
    rest = {name: value for name, value in record.items() if value is not None}
    category = rest.pop("Kind", None) or rest.pop("Domain", "")
    name = rest.pop("Kernel_Name", None) or rest.pop("Function", None) or rest.get("Direction")
    name = name or rest.get("Operation") or ""
    kind = _csv_kind(category)

    def number(key: str, bits: int = 64) -> int | None:
        return _integer(rest.pop(key, None), bits)

    def device(key: str) -> int | None:
        agent = _integer(rest.get(key), 32)
        return agent if agent is None or not devices else devices.get(agent)

    group, items = (
        [_integer(rest.get(f"{part}_Size_{axis}")) for axis in "XYZ"]
        for part in ("Workgroup", "Grid")
    )
    grid = _blocks(items, group) if kind == "kernel" else None
    row = {
        "kind": kind,
        "name": name or category.lower(),
        "category": category,
        "start": number("Start_Timestamp"),
        "end": number("End_Timestamp"),
        "device": device("Agent_Id"),
        "pid": number("Process_Id"),
        "tid": number("Thread_Id"),
        "correlation": number("Correlation_Id"),
        "grid": grid,
        "block": group if grid else None,
    }
    stream = number("Stream_Id")
    row["stream"] = stream if stream is not None else _integer(rest.get("Queue_Id"))
    if kind == "memcpy":
        target = device("Destination_Agent_Id")
        row["device"] = target if target is not None else device("Source_Agent_Id")
    if kind == "range" and row["start"] is not None and row["start"] == row["end"]:
        row["kind"] = "instant"
    if not name:
        repairs[NO_NAME] += 1
    row["args"] = json.dumps(rest) if rest else None
    return row


def _csv_kind(category: str) -> str:
    for label, kind in (
        ("KERNEL_DISPATCH", "kernel"), ("MEMORY_COPY", "memcpy"), ("MARKER", "range"),
        ("SCRATCH_MEMORY", "overhead"),
    ):  # fmt: skip
        if category.startswith(label):
            return kind
    return "api"
