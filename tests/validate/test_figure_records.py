"""Files with a figure a record: what becomes of records, and what is said of those without an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.validate.cases import read_cases
from assay.validate.run import rows_of, validate
from assay.validate.serving.deployments import deployment_of

RECORD: dict[str, Any] = {
    "source_family": "Some leaderboard",
    "url_or_repo_path": "someone/leaderboard/data.json",
    "kind": "energy", "gpu": "H100", "count": 1, "model": "Qwen/Qwen3-8B",
    "precision": "bfloat16", "batch/concurrency": "max_num_seqs 128, mean batch 127.8",
    "isl": 800, "osl": 641.0, "engine+version": "vLLM 0.11.1",
    "metric": "energy_per_output_token", "value": 0.097, "unit": "J/token", "tier": "A",
    "config_id": "qwen3-8b-h100-128", "id": "x-1", "config": {"task": "lm-arena-chat"},
}  # fmt: skip
POWER = {
    "kind": "power", "metric": "average_gpu_power_total", "value": 573.0, "unit": "W", "id": "x-2",
}  # fmt: skip
ITL = {
    "kind": "latency_percentile", "metric": "itl_p50", "value": 20.7, "unit": "ms", "id": "x-3",
}  # fmt: skip
PRICE = {
    "kind": "price", "metric": "rental", "value": 1.3, "unit": "USD/h", "id": "x-4",
    "config_id": "h100-rental", "model": None, "engine+version": None,
}  # fmt: skip


def _file(folder: Path, *records: dict[str, Any]) -> Path:
    path = folder / "records.json"
    path.write_text(json.dumps([RECORD | record for record in records]), "utf-8")
    return path


def test_records_of_one_configuration_are_one_case(tmp_path: Path) -> None:
    cases = read_cases(_file(tmp_path, {}, POWER, ITL, PRICE))
    assert [case.kind for case in cases] == ["inference", "figure"]
    served = cases[0]
    assert served.suite == "someleaderboard"
    assert served.observed == {
        "energy_per_output_token": 0.097, "average_gpu_power_total": 573.0, "itl_p50": 20.7,
    }  # fmt: skip
    assert served.units["itl_p50"] == "ms"
    assert served.inputs["concurrency"] == 127.8
    assert served.inputs["batch_limit"] == 128
    assert served.source["url"] == "https://github.com/someone/leaderboard/data.json"


def test_every_figure_has_a_prediction_or_a_named_gap(tmp_path: Path) -> None:
    """The published power, energy and ITL lie within a quarter of what was predicted."""
    rows = {
        row.quantity: row for row in rows_of(validate(path=_file(tmp_path, {}, POWER, ITL, PRICE)))
    }
    assert set(rows) == {
        "energy_per_output_token", "average_gpu_power_total", "itl_p50", "rental",
    }  # fmt: skip
    assert rows["rental"].gap.startswith("price: ")
    for name in ("energy_per_output_token", "average_gpu_power_total", "itl_p50"):
        error = rows[name].error
        assert error is not None
        assert abs(error) < 0.25, name
    energy, power = rows["energy_per_output_token"], rows["average_gpu_power_total"]
    assert energy.group == "energy per token"
    assert power.group == "GPU power"
    assert energy.lo is not None
    assert energy.hi is not None
    assert energy.predicted is not None
    assert energy.lo < energy.predicted < energy.hi


@pytest.mark.parametrize(
    ("change", "said"), [({"value": "573 W"}, "number as value"), ({"unit": None}, "expected unit")]
)
def test_a_malformed_record_is_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read_cases(_file(tmp_path, POWER | change))
    assert "x-2" in caught.value.message


OPEN_LOOP = {
    "kind": "open_loop", "gpu": "MI300X", "count": 8, "model": "Llama-3.1-405B FP8", "precision": "fp8",
    "batch/concurrency": "open loop 16 requests/s, 1,000 requests", "isl": 215, "osl": 180.3,
    "engine+version": "vLLM (Nov 2024; version in the README)", "notes": "1,000 requests; no more.",
    "system": "8xMi300x  2FP8-amd", "config": {"request_rate": 16.0}, "metric": "tpot_p50",
    "value": 183.9, "unit": "ms", "id": "x-5", "config_id": "two-servers",
}  # fmt: skip
STATIC = {
    "kind": "serving", "gpu": "Trainium1", "count": 16, "model": "Llama-3-8B",
    "precision": "weights int8, compute Matmult-BF16", "batch/concurrency": 8,
    "engine+version": "Transformers NeuronX", "notes": "Static batch.", "config": {},
    "metric": "tpot_p50", "value": 9.95, "unit": "ms", "id": "x-6", "config_id": "static",
}  # fmt: skip


def test_open_loops_and_static_batches_are_read(tmp_path: Path) -> None:
    """Two servers of four GPUs share the arrivals; weights of 8 bits are multiplied in 16."""
    open_loop, static = read_cases(_file(tmp_path, OPEN_LOOP, STATIC))
    assert open_loop.inputs["tp"] == 4
    served = deployment_of(open_loop)
    assert (served.arrival_rate, served.client, served.release) == (8.0, "open_loop", (0, 6, 4))
    assert served.values["serving.run_requests"] == 500
    assert {figure.group for figure in served.figures} == {"TPOT, loaded"}
    batch = deployment_of(static)
    assert (batch.client, batch.values["serving.static"]) == ("offline", 1)
    assert batch.values["serving.weight_bytes"] == 1
    assert batch.values["serving.compute_bits"] == 16
