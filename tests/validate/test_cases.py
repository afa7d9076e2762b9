"""Files of cases: what is read, and what is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.validate.cases import read_cases
from assay.validate.run import published_cases

GOOD = {"id": "suite-a-1", "kind": "training", "inputs": {"gpu": "H100"}, "observed": {"x": 1}}


def written(folder: Path, data: Any) -> Path:
    path = folder / "cases.json"
    path.write_text(json.dumps(data))
    return path


def test_the_published_cases_read() -> None:
    cases = read_cases(published_cases())
    assert len(cases) == 687
    assert {case.kind for case in cases} == {"training", "inference", "hardware"}


def test_a_suite_is_the_id_up_to_the_first_hyphen(tmp_path: Path) -> None:
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
def test_malformed_files_are_refused(tmp_path: Path, data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_cases(written(tmp_path, data))


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"cases\.json cannot be read"):
        read_cases(path)
