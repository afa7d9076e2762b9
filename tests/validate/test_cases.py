"""Files of cases: reading, and errors that name what is malformed."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.validate.cases import published_cases, read_cases
from assay.validate.run import validate

GOOD = {"id": "suite-a-1", "kind": "training", "inputs": {"gpu": "H100"}, "observed": {"x": 1}}


def written(folder: Path, data: Any) -> Path:
    path = folder / "cases.json"
    path.write_text(json.dumps(data))
    return path


def test_published_cases_are_read() -> None:
    cases = read_cases(published_cases())
    figures = [case for case in cases if case.units]
    assert len(cases) - len(figures) == 687 + 222
    assert sum(len(case.observed) for case in figures) == 882
    assert {case.kind for case in cases} == {"training", "inference", "hardware", "figure"}


def test_suite_is_the_id_up_to_the_first_hyphen(tmp_path: Path) -> None:
    (case,) = read_cases(written(tmp_path, [GOOD]))
    assert case.suite == "suite"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "expected a list of cases, got dict"),
        ([3], "entry 0 is not an object"),
        ([{**GOOD, "inputs": None}], 'case suite-a-1: expected a dict as "inputs"'),
        ([{**GOOD, "kind": "cooking"}], 'unknown kind "cooking"'),
        ([{**GOOD, "tier": "Z"}], 'unknown tier "Z"'),
        ([GOOD, GOOD], "two cases are called suite-a-1"),
    ],
)
def test_malformed_files_raise(tmp_path: Path, data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_cases(written(tmp_path, data))


def test_file_without_json_raises(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"cases\.json cannot be read"):
        read_cases(path)


ODD = [
    ("kernels", {"kind": "hardware", "inputs": {"gpu": "A100-SXM", "op": "gemm", "dtype": "bf16",
     "m": 0, "n": 64, "k": 64}, "observed": {"latency_ms": 1}}, "m: expected at least 1, got 0"),
    ("kernels", {"kind": "hardware", "inputs": {"gpu": "A100-SXM", "op": "gemm", "dtype": "bf16",
     "m": 1, "n": 64, "k": 64}, "observed": {}}, "states no figure to predict"),
    ("training", {"kind": "training", "inputs": {"gpu": "NoSuchGPU", "n_gpus": 8, "hidden": 64,
     "layers": 2, "heads": 2}, "observed": {"step_time_s": 1}}, "unknown accelerator"),
    ("training", {"kind": "training", "inputs": {}, "observed": {}}, "no accelerator is stated"),
    ("inference", {"kind": "inference", "inputs": {"gpu": "H100", "model": "NoSuchModel-9B"},
     "observed": {"ttft_ms": 1}}, "unknown model"),
]  # fmt: skip


@pytest.mark.parametrize(("suite", "case", "reason"), ODD)
def test_unpredictable_case_has_a_reason(
    tmp_path: Path, suite: str, case: dict[str, Any], reason: str
) -> None:
    path = written(tmp_path, [{"id": "odd-1", **case}])
    score = validate(suite, path)[0]
    assert (score.cases, score.covered) == (1, 0)
    assert reason in score.rows[0].gap


def test_unknown_suite_is_predicted(tmp_path: Path) -> None:
    case = {
        "id": "unheardof-1", "kind": "training", "tier": "A", "observed": {"step_time_s": 10.0},
        "inputs": {"gpu": "H200", "n_gpus": 8, "model": "Llama-3.1-8B", "seq_len": 8192,
                   "global_batch": 128, "tp": 1, "pp": 1, "precision": "bf16"},
    }  # fmt: skip
    row = validate("training", written(tmp_path, [case]))[0].rows[0]
    assert row.predicted is not None
    assert row.lo is not None
    assert row.hi is not None
    assert row.lo < row.predicted < row.hi
    assert any("micro-batch not stated" in note for note in row.notes)
