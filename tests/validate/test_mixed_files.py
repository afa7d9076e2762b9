"""A file of many GPUs gives each case the row that a file with that case alone gives."""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from types import ModuleType

import pytest
from hypothesis import given, settings, strategies as st

from assay.catalog import accelerators
from assay.validate.cases import Case, published_cases, read_cases
from assay.validate.collectives import predict as collectives
from assay.validate.kernels import predict as kernels
from assay.validate.score import Row
from assay.validate.serving import predict as serving
from assay.validate.training import predict as training

SYSTEMS = [entry.name for entry in accelerators.all_accelerators()]


def serving_case(system: str, model: str, tensor: int) -> Case:
    return Case(
        f"serving-{system}-{model}-{tensor}", "inference",
        {"system": system, "model": model, "backend": "vllm", "isl": 1024, "osl": 128,
         "concurrency": 8, "tp": tensor, "precision": "bf16"},
        {"tpot_ms": 20.0, "ttft_ms": 200.0},
    )  # fmt: skip


def training_case(system: str, gpus: int) -> Case:
    return Case(
        f"training-{system}-{gpus}", "training",
        {"model": "llama-3.1-8b", "gpu": system, "n_gpus": gpus, "seq_len": 4096, "tp": 1,
         "pp": 1, "global_batch": 128, "micro_batch": 1, "precision": "bf16"},
        {"step_time_s": 10.0},
        {"title": f"report on {system} of May 2025", "url": f"https://example.org/{system}"},
    )  # fmt: skip


def kernel_case(system: str) -> Case:
    return Case(
        f"kernel-{system}", "hardware",
        {"op": "gemm", "system": system, "m": 4096, "n": 4096, "k": 4096, "dtype": "bf16"},
        {"latency_ms": 1.0},
    )  # fmt: skip


def collective_case(system: str) -> Case:
    return Case(
        f"collective-{system}", "hardware",
        {"op": "all_reduce", "system": system, "num_gpus": 4, "message_size_bytes": 1e6,
         "dtype": "bf16"},
        {"latency_us": 30.0},
    )  # fmt: skip


KINDS: dict[str, tuple[ModuleType, list[Case]]] = {
    "serving": (
        serving,
        [
            *(serving_case(system, "llama-3.1-8b", 1) for system in SYSTEMS),
            *(serving_case(system, "mixtral-8x7b", 4) for system in SYSTEMS),
        ],
    ),
    "training": (training, [training_case(system, gpus) for system in SYSTEMS for gpus in (8, 64)]),
    "kernels": (kernels, [kernel_case(system) for system in SYSTEMS]),
    "collectives": (collectives, [collective_case(system) for system in SYSTEMS]),
}


@cache
def alone(kind: str) -> dict[str, list[Row]]:
    module, cases = KINDS[kind]
    return {case.id: module.predict([case]) for case in cases}


def without_baselines(rows: list[Row]) -> list[dict[str, object]]:
    """Rows as data, less the constant MFU, which is a median over the file."""
    data = [row.to_data() for row in rows]
    for row in data:
        row["baselines"].pop("constant_mfu", None)
    return data


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None, database=None, derandomize=True)
@given(data=st.data())
def test_a_case_in_a_mixed_file_has_the_row_it_has_alone(kind: str, data: st.DataObject) -> None:
    module, cases = KINDS[kind]
    chosen = data.draw(st.lists(st.sampled_from(cases), min_size=2, unique_by=lambda c: c.id))
    rows = module.predict(chosen)
    for case in chosen:
        here = [row for row in rows if row.case == case.id]
        assert without_baselines(here) == without_baselines(alone(kind)[case.id])


def test_an_l40s_and_an_mi300x_leave_an_h100_as_it_is() -> None:
    cases = [serving_case(system, "llama-3.1-8b", 1) for system in ("h100_sxm", "l40s", "mi300x")]
    rows = serving.predict(cases)
    assert [row.gap for row in rows] == [""] * 6
    # Decoding reads 16 GB of weights a step: no faster than the bandwidth allows, and within 2x.
    floors = {"h100_sxm": 16.06 / 3.35, "l40s": 16.06 / 0.864, "mi300x": 16.06 / 5.3}
    steps = {row.case: row.predicted for row in rows if row.quantity == "tpot_ms"}
    for case in cases:
        floor = floors[case.inputs["system"]]
        assert floor < (steps[case.id] or 0.0) < 2.2 * floor


def test_missing_inputs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = serving.hardware

    def without_memory(system: str, engine: str = "vllm") -> dict[str, float]:
        found = whole(system, engine)
        if system == "l40s":
            found = {name: v for name, v in found.items() if name != "gpu.memory.bandwidth"}
        return found

    monkeypatch.setattr(serving, "hardware", without_memory)
    rows = serving.predict(
        [serving_case(system, "llama-3.1-8b", 1) for system in ("l40s", "h100_sxm")]
    )
    gaps = {row.case: row.gap for row in rows}
    assert gaps["serving-l40s-llama-3.1-8b-1"].startswith("missing inputs: ")
    assert "hbm." in gaps["serving-l40s-llama-3.1-8b-1"]
    assert gaps["serving-h100_sxm-llama-3.1-8b-1"] == ""


@pytest.mark.slow
def test_training_rows_do_not_depend_on_the_order_of_the_file() -> None:
    cases = [case for case in read_cases(published_cases()) if case.kind == "training"]
    forward, backward = training.predict(cases), training.predict(cases[::-1])
    key = attrgetter("case", "quantity")
    assert sorted(forward, key=key) == sorted(backward, key=key)
