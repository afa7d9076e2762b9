"""JSON with one record a line: values survive, and the data files are written that way."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from assay.json_records import dumps

ROOT = Path(__file__).parents[1]
FILES = {
    "python/assay/catalog/cases/*.json": 1,
    "python/assay/catalog/calibration/[!eh]*.json": 3,
    "python/assay/catalog/calibration/h[12]*.json": 3,
    "python/assay/catalog/calibration/held_out_*.json": 2,
    "python/assay/catalog/calibration/engines.json": 4,
    "python/assay/ops/counts.json": 1,
    "bench/results/*.json": 2,
    "tests/data/llama_cpp_smollm2.json": 2,
    "tests/data/vllm_h200_decode_llama8b.json": 1,
}
"""Generated files, and how many levels of each have one item a line."""

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.integers(0, 5))
def test_values_survive_at_any_depth(value: Any, depth: int) -> None:
    assert json.loads(dumps(value, depth)) == value


def test_each_record_of_a_list_is_one_line() -> None:
    records = [{"id": number, "inputs": {"gpu": [1, 2]}} for number in range(3)]
    lines = dumps(records, 1).splitlines()
    assert [json.loads(line.rstrip(",")) for line in lines[1:-1]] == records


def test_depth_zero_and_scalar_containers_are_one_line() -> None:
    assert dumps([[1], [2]], 0) == "[[1], [2]]"
    assert dumps({"a": 1, "b": None}, 3) == '{"a": 1, "b": null}'
    assert dumps({"a": {}, "b": []}, 1) == '{\n "a": {},\n "b": []\n}'


@pytest.mark.parametrize("pattern", FILES)
def test_data_files_have_one_record_a_line(pattern: str) -> None:
    paths = sorted(ROOT.glob(pattern))
    assert paths
    for path in paths:
        text = path.read_text()
        assert text == dumps(json.loads(text), FILES[pattern]) + "\n", path.name
