"""Files with a figure a record, as tables of publications list them, read as cases.

Records of one configuration are one case with several observed figures. A record says what it is by
`kind` and `metric`; of those that no question of Assay answers, `GAPS` says why.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.errors import InputError

FIELDS: Final = ("id", "source_family", "kind", "metric", "value", "unit")
"""What every record states."""

_SERVED: Final = (
    "energy", "power", "latency_percentile", "throughput", "serving", "memory", "open_loop",
)  # fmt: skip
"""Kinds of records about a server, where they name a model and an accelerator."""

GAPS: Final = {
    "open_loop": "the model, the accelerator or the engine is not in the record",
    "disaggregation": "the split of nodes between prefill and decode is not in the record",
    "training": "layout and batch of the run are in the recipe, not in the record",
    "training_scaling": "layout and batch of the run are in the recipe, not in the record",
    "training_total": "hours of a whole run: layout, failures and restarts are not in the record",
    "reliability": "failure rates are inputs from this source, not predictions",
    "embodied_carbon": "no boundary of the model is a whole board",
    "kernel": "no kernel constants of this accelerator",
    "price": "prices are inputs, not predictions",
    "site": "PUE and WUE of operators are inputs, not predictions",
    "power": "power of a node or a rack by its owner: the load is not in the record",
    "energy": "tokens of the request are not in the record",
}
"""Why records of a kind have no prediction."""

_BATCH: Final = re.compile(r"max_num_seqs (\d{1,9}), mean batch (\d{1,9}(?:\.\d{1,9})?)")
_UTILIZATION: Final = re.compile(r"gpu-memory-utilization (\d\.\d{1,4})")
_CHECKPOINT: Final = re.compile(r" (?:FP8|INT4)$")
_MOST_TOKENS: Final = re.compile(r"max-num-batched-tokens (\d{1,9})")
_MOST_REQUESTS: Final = re.compile(r"max-num-seqs (\d{1,9})")
_REQUESTS: Final = re.compile(r"(\d[\d,]{0,12}) (?:random prompts|requests)\b")
_INSTANCES: Final = re.compile(r"^\d{1,4}x\S{1,20} {1,4}([2-9])(?:FP8|BF16)")
"""Servers beside each other, each of its share of the GPUs, as dstack names its systems."""
_MONTH: Final = re.compile(r"vLLM \((\w{3} \d{4})")

_RELEASES: Final = {"Nov 2024": ("0.6.4", 256)}
"""vLLM by month: the release (0.6.4 is of 15 November 2024), and its default of max_num_seqs (vllm/config.py)."""


@dataclass(frozen=True)
class DataSet:
    """Requests whose publication leaves out what they are: from its code, or assumed."""

    prompt: float
    """Input tokens: an assumption. Chats repeat all turns before (ml-energy/benchmark, llm/datasets.py)."""
    requests: int
    repeats: float
    """A run has so many requests, and so often that it has this many times the running ones (its sweeps.yaml)."""


DATA_SETS: Final = {"lm-arena-chat": DataSet(600.0, 1024, 1.4), "gpqa": DataSet(250.0, 198, 1.15)}
"""Data sets of ml-energy/benchmark, whose requests have top-p 0.95 and a repetition penalty of 1.1
(llm/benchmark.py)."""


def share_of_output(running: int, data: DataSet) -> float:
    """Mean output so far of running requests over the mean output, within the window that is measured.

    The window begins as all requests run and ends as fewer are left than may run. Lengths are exponential: the mean
    age of a process that begins at zero approaches its mean exponentially.

    >>> round(share_of_output(8, DATA_SETS["lm-arena-chat"]), 2)
    0.99
    """
    requests = data.requests * max(math.ceil(data.repeats * running / data.requests), 1)
    window = max(requests - running - 1, 1) / running
    return 1 - (1 - math.exp(-window)) / window


def is_records(data: object) -> bool:
    """Whether the content of a file has a figure a record, not a case an entry."""
    return (
        isinstance(data, list)
        and bool(data)
        and all(
            isinstance(item, dict) and "metric" in item and "inputs" not in item for item in data
        )
    )


def cases_data(file: str, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records as entries of a file of cases; raises `InputError` that names what is malformed."""
    cases: dict[tuple[str, str, str], dict[str, Any]] = {}
    for position, record in enumerate(records):
        where = f"cases file {file}: record {record.get('id', position)}"
        missing = [name for name in FIELDS if record.get(name) is None]
        if missing:
            raise InputError(f"{where}: expected {', '.join(missing)}, got none", _HINT)
        value, metric = record["value"], str(record["metric"])
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{where}: expected a number as value, got {value!r}", _HINT)
        # Figures that nothing predicts are apart by kind, which the reason depends on.
        kind = "" if _is_served(record) else str(record["kind"])
        key = str(record["source_family"]), str(record.get("config_id") or record["id"]), kind
        known = cases.get(key)
        if known is None or metric in known["observed"]:
            known = _case(record)
            cases[key if key not in cases else (*key[:2], str(record["id"]))] = known
        known["observed"][metric] = value
        known["units"][metric] = str(record["unit"])
    return list(cases.values())


_HINT: Final = f"a record states {', '.join(FIELDS)}"


def _is_served(record: Mapping[str, Any]) -> bool:
    named = bool(record.get("model") and record.get("gpu"))
    return named and record["kind"] in _SERVED and bool(record.get("engine+version"))


def _kind(record: Mapping[str, Any]) -> str:
    return "inference" if _is_served(record) else "figure"


def _case(record: Mapping[str, Any]) -> dict[str, Any]:
    family = str(record["source_family"])
    words = re.split(r"[^a-z0-9]+", family.lower())
    suite = "".join(words[:2])
    address = str(record.get("url_or_repo_path") or "")
    if "//" not in address:
        address = "https://github.com/" + address
    return {
        "id": f"{suite}-{record['id']}",
        "kind": _kind(record),
        "inputs": _inputs(record) if _is_served(record) else {"kind": str(record["kind"])},
        "observed": {},
        "units": {},
        "source": {"title": family, "url": address},
        "notes": str(record.get("notes") or ""),
        "tier": str(record.get("tier") or "B"),
    }


def _inputs(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record in the words of cases of serving."""
    config = record.get("config") or {}
    gpus = record.get("count") or 1
    inputs: dict[str, Any] = {
        "system": record["gpu"],
        "model": _CHECKPOINT.sub("", str(record["model"])),
        "precision": _precision(record),
        "backend": str(record.get("engine+version") or ""),
        # Ranks of experts are ranks of attention too: an instance has all GPUs of the record.
        "tp": gpus,
        "moe_ep": config.get("expert_parallel") or 1,
        "isl": record.get("isl"),
        "osl": record.get("osl"),
        "client": "closed loop",
    }
    inputs |= _settings(record)
    if record["kind"] == "memory":
        # What an engine reserves at its start does not follow from requests.
        inputs |= {"concurrency": 1, "isl": 1, "osl": 1}
        match = _UTILIZATION.search(str(record.get("notes") or ""))
        if match:
            inputs["memory_share"] = float(match.group(1))
    batch = record.get("batch/concurrency")
    if match := _BATCH.search(str(batch or "")):
        inputs |= {"batch_limit": int(match.group(1)), "concurrency": float(match.group(2))}
    elif isinstance(batch, int | float):
        inputs["concurrency"] = batch
    data = DATA_SETS.get(str(config.get("task")))
    if data is not None:
        inputs["sampling"] = ("top-p", "penalties")
        if match:
            running = int(match.group(1))
            inputs |= {
                "running": float(match.group(2)),
                "output_share": share_of_output(running, data),
            }
        if inputs["isl"] is None:
            inputs |= {"isl": data.prompt, "assumed_prompt": config["task"]}
    return inputs


def _settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of its server and its client in words."""
    engine, notes = str(record["engine+version"]), str(record.get("notes") or "")
    settings: dict[str, Any] = {}
    if match := _MONTH.search(engine):
        release, limit = _RELEASES.get(match.group(1), ("", 0))
        settings |= {"backend_version": release, "batch_limit": limit}
    if match := _MOST_TOKENS.search(engine):
        settings["prompt_budget"] = int(match.group(1))
    if match := _MOST_REQUESTS.search(engine):
        settings["batch_limit"] = int(match.group(1))
    if match := _REQUESTS.search(notes):
        settings["num_prompts"] = int(match.group(1).replace(",", ""))
    if "static batch" in notes.lower():
        # Of a library without a server: whole batches, one after the other.
        settings |= {"mode": "static", "client": ""}
    if record["kind"] == "open_loop":
        rate = (record.get("config") or {}).get("request_rate")
        settings |= {"client": "open loop", "arrival_rate": rate}
    if match := _INSTANCES.match(str(record.get("system") or "")):
        instances = int(match.group(1))
        settings |= {"instances": instances, "tp": (record.get("count") or 1) // instances}
    return settings


def _precision(record: Mapping[str, Any]) -> str:
    """The number format; where it is only "as published", the one that the model's name says."""
    stated = str(record.get("precision") or "")
    if "int8" in stated and "bf16" in stated.lower():
        # Weights are stored in 8 bits and multiplied in 16.
        return "w8a16"
    if stated == "mxfp4" and record["gpu"] in _MXFP8 and _is_ml_energy(record):
        return "w4a8_mxfp4_mxfp8"
    if stated == "as published":
        return (
            "fp8"
            if "fp8" in str(record["model"]).lower()
            else _NATIVE.get(str(record["model"]).rpartition("/")[2], "bf16")
        )
    return stated


def _is_ml_energy(record: Mapping[str, Any]) -> bool:
    return str(record["source_family"]).startswith("ML.ENERGY")


_MXFP8: Final = ("B200",)
"""GPUs on which ml-energy/benchmark sets VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8."""

_NATIVE: Final = {"gpt-oss-20b": "mxfp4", "gpt-oss-120b": "mxfp4"}
"""Formats of checkpoints whose publication says only "as published"."""
