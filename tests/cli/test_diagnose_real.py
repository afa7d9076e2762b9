"""Diagnoses of real traces, which are not part of the repository.

`ASSAY_TRACES=FOLDER pytest -s tests/cli/test_diagnose_real.py` diagnoses every PyTorch
profiler trace of a folder and prints what it finds. A name that holds `llama8b` or `qwen3moe` is of
that model, on an H200; `eager` and `graph` in it say how kernels were launched.
"""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

FOLDER = os.environ.get("ASSAY_TRACES")
MODELS = {"llama8b": "models/llama-3.1-8b", "qwen3moe": "models/qwen3-30b-a3b"}
PATHS = sorted(Path(FOLDER).glob("*.json*")) if FOLDER else []

pytestmark = pytest.mark.skipif(not PATHS, reason="ASSAY_TRACES names no folder of traces")


def idle_ns(path: Path, low: int, high: int) -> int:
    """Time without a device event between two moments, recounted from the file."""
    data = path.read_bytes()
    file = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    base = int(file.get("baseTimeNanoseconds", 0))
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    spans = sorted(
        (base + round(1000 * event["ts"]), base + round(1000 * (event["ts"] + event["dur"])))
        for event in file["traceEvents"]
        if event.get("cat") in kinds
    )
    idle, reached = 0, low
    for start, end in spans:
        if end <= low or start >= high:
            continue
        idle += max(start - reached, 0)
        reached = max(reached, end)
    return idle + max(high - reached, 0)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_a_real_trace_is_diagnosed(path: Path, cli: Any) -> None:
    model = next((name for mark, name in MODELS.items() if mark in path.name), None)
    if model is None:
        pytest.skip("no known model in its name")
    data = cli("diagnose", str(path), "--model", model, "--gpu", "h200", "--json").data
    terms = {term["name"]: term["ns"] for term in data["waterfall"]}
    print(
        f"\n{path.name}: {data['step_ns'] / 1e6:.3f} ms, predicted {data['predicted_ns'] / 1e6:.3f}"
    )
    for cause in data["causes"]:
        print(f"  {cause['ns_per_token'] / 1e3:10.1f} us  {cause['name']}: {cause['status']}")
    assert sum(terms.values()) == data["step_ns"]
    assert terms["unknown"] <= 0.03 * data["step_ns"]
    own = [one for one in data["causes"] if not one["within"] and not one["beyond_step"]]
    explained = sum(one["ns_per_token"] for one in own) + terms["unknown"]
    assert explained == pytest.approx(data["step_ns"] - terms["floor"], rel=0.001)
    if "graph" in path.name:
        assert data["predicted_ns"] == pytest.approx(data["step_ns"], rel=0.1)
    if "eager" in path.name:
        low = min(one["start_ns"] for one in data["intervals"])
        idle = idle_ns(path, low, low + data["step_ns"])
        first = data["causes"][0]
        assert first["name"] == "host launch"
        assert first["ns_per_token"] == pytest.approx(idle, rel=0.03)
        assert any(
            one["name"] == "profiler overhead" and one["within"] == "host launch"
            for one in data["causes"]
        )
