"""What ran in a trace: engine, hardware, and what each step worked on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from assay.catalog import accelerators
from assay.errors import InputError, UnknownNameError, unknown_name
from assay.lazy_import import pl
from assay.observe import schema
from assay.observe.trace import Trace

ENGINES: Final = ("vllm", "assay")
"""Engines whose steps can be predicted."""

_MARKS: Final = {"vllm": "vllm"}
"""Engines by what names of their kernels and operations contain."""


@dataclass(frozen=True, slots=True)
class Group:
    """Steps that one prediction stands for."""

    phase: str
    batch: int
    """Sequences that decode."""
    prefill_tokens: int
    context: int | None
    """The median over the steps that state one."""
    steps: int
    prompts: int = 1
    """Prompts of a step, by the median over the steps that state them."""


def check_engine(engine: str | None) -> None:
    """Refuse an engine whose kernels are not known."""
    if engine is not None and engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)


def check_sizes(**sizes: int | None) -> None:
    """Refuse a size below 1; each is called as its option is."""
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise InputError(f"--{name}: expected 1 or more, got {size}")


def engine_of(trace: Trace) -> str | None:
    """The engine that a trace is of, from its header or the names of its kernels."""
    if trace.header.engine in ENGINES:
        return trace.header.engine
    names = trace.events["name"].unique().cast(pl.String)
    for engine, mark in _MARKS.items():
        if names.str.contains(mark, literal=True).any():
            return engine
    return None


def gpu_of(trace: Trace) -> str | None:
    """The accelerator of the catalog that the header names; None where it names none, or several."""
    devices = trace.header.hardware.get("devices")
    named = [_device_name(member) for member in _members(devices)]
    names = set()
    for name in dict.fromkeys(named):
        try:
            names.add(accelerators.find(name).name)
        except UnknownNameError:
            return None
    return names.pop() if len(names) == 1 else None


def check_stated(trace: Trace, *, gpu: str | None, engine: str | None, tensor: int | None) -> None:
    """Refuse what contradicts the header of a trace: its times are those of what it names."""
    own = gpu_of(trace)
    if gpu is not None and own is not None and (asked := _catalog_name(gpu)) not in (None, own):
        raise InputError(
            f"--gpu: expected {own}, which the trace was recorded on, got {asked}",
            "leave --gpu out; assay predict prices the same step on another GPU",
        )
    if engine is not None and trace.header.engine in ENGINES and engine != trace.header.engine:
        raise InputError(f"--engine: expected {trace.header.engine}, the trace's own, got {engine}")
    ranks = _stated_ranks(trace)
    if tensor is not None and ranks is not None and tensor > ranks:
        raise InputError(f"--tensor: expected at most {ranks}, the trace's ranks, got {tensor}")


def _catalog_name(gpu: str) -> str | None:
    """The catalog's name of a GPU; None for a file of a calibration."""
    try:
        return accelerators.find(gpu).name
    except UnknownNameError:
        return None


def gpu_names(trace: Trace) -> list[str]:
    """Devices as the header has them."""
    named = [_device_name(member) for member in _members(trace.header.hardware.get("devices"))]
    return [name for name in dict.fromkeys(named) if name]


def _members(devices: Any) -> list[Any]:
    if isinstance(devices, dict):
        return list(devices.values())
    return list(devices) if isinstance(devices, list) else []


def _device_name(device: Any) -> str:
    if not isinstance(device, dict):
        return ""
    return str(device.get("name") or device.get("description") or "")


def ranks_of(trace: Trace) -> int:
    """GPUs that run the model together, as far as the trace says."""
    return max(_stated_ranks(trace) or 1, trace.events["rank"].drop_nulls().n_unique())


def _stated_ranks(trace: Trace) -> int | None:
    info = trace.header.metadata.get("distributedInfo")
    stated = info.get("world_size") if isinstance(info, dict) else None
    return stated if isinstance(stated, int) and stated > 0 else None


def uses_graphs(trace: Trace) -> bool:
    """Whether most device time of decode steps is in replays of CUDA graphs."""
    device = trace.events.lazy().filter(pl.col("kind").is_in(list(schema.DEVICE_KINDS)))
    decode = trace.steps.filter(pl.col("phase").cast(pl.String) == "decode")["step"]
    if len(decode):
        device = device.filter(pl.col("step").is_in(decode.unique().implode()))
    # A launch starts one kernel; a correlation that several share is a replay's.
    shared = (pl.len().over("rank", "correlation") > 2) & pl.col("correlation").is_not_null()
    sums = (
        device.select("dur_ns", (shared | pl.col("graph").is_not_null()).alias("replayed"))
        .group_by("replayed")
        .agg(pl.col("dur_ns").sum())
        .collect()
    )
    took = dict(sums.rows())
    return bool(took.get(True, 0) > took.get(False, 0))


def with_batch(trace: Trace, batch: int | None, context: int | None) -> Trace:
    """The trace with what the caller says of its decode steps."""
    steps = trace.steps
    decode = pl.col("phase").cast(pl.String) == "decode"
    for name, given in (("batch", batch), ("context", context)):
        if given is not None:
            value = pl.when(decode).then(pl.lit(given, pl.Int64)).otherwise(pl.col(name))
            steps = steps.with_columns(value.alias(name))
    return Trace(trace.header, trace.events, steps)


def as_one_step(trace: Trace) -> Trace:
    """A trace without steps as one step of no known phase, over all of its device events."""
    device = pl.col("kind").is_in(list(schema.DEVICE_KINDS))
    events = trace.events.with_columns(
        pl.when(device).then(pl.lit(0, pl.Int64)).otherwise(None).alias("step")
    )
    end = pl.col("start_ns") + pl.col("dur_ns")
    whole = events.filter(device).select(
        pl.lit(0, pl.Int64).alias("step"),
        pl.col("rank").drop_nulls().first(),
        pl.col("start_ns").min(),
        (end.max() - pl.col("start_ns").min()).alias("dur_ns"),
        pl.col("dur_ns").sum().alias("device_ns"),
    )
    columns = schema.step_columns()
    steps = whole.select(
        (pl.col(name) if name in whole.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in columns.items()
    )
    return Trace(trace.header, events, steps)


def groups(trace: Trace) -> list[Group]:
    """Steps by phase and size, decode first, the most frequent first; unknown sizes left out."""
    steps = trace.steps.with_columns(pl.col("phase").cast(pl.String))
    grouped: list[Group] = []
    decode = steps.filter((pl.col("phase") == "decode") & (pl.col("batch") > 0))
    for batch, context, count in _counted(decode, "batch"):
        grouped.append(Group("decode", batch, 0, context, count))
    prefill = steps.filter((pl.col("phase") == "prefill") & (pl.col("prefill_tokens") > 0))
    for tokens, context, count in _counted(prefill, "prefill_tokens"):
        alike = prefill.filter(pl.col("prefill_tokens") == tokens)
        grouped.append(Group("prefill", 0, tokens, context, count, _prompts(alike, 0)))
    mixed = steps.filter(
        (pl.col("phase") == "mixed") & (pl.col("batch") > 0) & (pl.col("prefill_tokens") > 0)
    )
    for (batch, tokens), part in mixed.group_by(["batch", "prefill_tokens"], maintain_order=True):
        prompts = _prompts(part, int(batch))
        grouped.append(Group("mixed", int(batch), int(tokens), _median(part), part.height, prompts))
    return grouped


def _counted(steps: pl.DataFrame, key: str) -> list[tuple[int, int | None, int]]:
    grouped = (
        steps.group_by(key).agg(pl.col("context").median(), pl.len()).sort("len", descending=True)
    )
    return [
        (int(size), None if context is None else round(context), int(count))
        for size, context, count in grouped.rows()
    ]


def _prompts(steps: pl.DataFrame, decoding: int) -> int:
    """Requests of a step that do not decode; 1 where the steps do not state their requests."""
    value = steps["requests"].median()
    return max(round(value) - decoding, 1) if isinstance(value, (int, float)) else 1


def _median(steps: pl.DataFrame) -> int | None:
    value = steps["context"].median()
    return round(value) if isinstance(value, (int, float)) else None


def check_batch(trace: Trace, where: str) -> None:
    """Refuse decode steps of unknown size."""
    decode = trace.steps.filter(pl.col("phase").cast(pl.String) == "decode")
    unknown = decode["batch"].null_count()
    if decode.height and unknown == decode.height:
        raise InputError(
            f"{where}: expected the number of sequences of its decode steps, got none that kernels "
            "or annotations show",
            "--batch says how many sequences decode in a step",
        )
