"""The result file: round trip, and rejection of anything else."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.bench.harness.result import load
from assay.errors import InputError

Make = Callable[..., Any]


def test_result_survives_a_round_trip(make_figure: Make, make_result: Make, tmp_path: Path) -> None:
    original = make_result(
        make_figure([1.0, 2.0, 3.0], ceiling=[4.0, 4.0, 4.0], rivals={"NumPy": [1.0, None, 2.0]}),
        make_figure([5.0] * 3, name="other", unit="us"),
    )
    path = tmp_path / "result.json"
    original.save(path)
    assert load(path) == original
    assert load(path).to_data() == original.to_data()


def test_nan_becomes_null(make_figure: Make, make_result: Make, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    make_result(make_figure([1.0], error=math.nan)).save(path)
    assert "NaN" not in path.read_text()
    found = load(path).figures[0].check
    assert math.isnan(found.error)
    assert not found.passed


def test_summary_statistics_of_the_rounds(make_figure: Make) -> None:
    data = make_figure(
        [float(value) for value in range(1, 12)], ceiling=[12.0] * 11, rivals={"NumPy": [3.0] * 11}
    ).to_data()
    assert data["value"] == 6.0
    assert (data["own"]["p10"], data["own"]["p90"]) == (2.0, 10.0)
    assert data["own"]["interval"] == [2.0, 10.0]
    assert data["spread"] == pytest.approx(8.0 / 6.0)
    assert data["ceiling"]["ratio"] == 0.5
    assert data["rivals"][0]["ratio"] == 2.0
    assert data["check"]["passed"] is True


def corrupt(data: Any, where: list[Any], value: Any) -> bytes:
    place = data
    for key in where[:-1]:
        place = place[key]
    if value is KeyError:
        del place[where[-1]]
    else:
        place[where[-1]] = value
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("where", "value", "why"),
    [
        (["schema"], "other/1", "expected schema assay.bench/1, got other/1"),
        (["figures"], KeyError, "KeyError"),
        (["figures", 0, "unit"], "furlongs", "unknown unit 'furlongs'"),
        (["figures", 0, "own", "rounds"], [], "lacks rounds"),
        (["figures", 0, "own", "rounds"], [None, None], "lacks rounds"),
        (["figures", 0, "own", "rounds"], [-1.0, 2.0], "are not all positive"),
        (["figures", 0, "own", "rounds"], ["x", 2.0], "ValueError"),
        (["figures", 0, "own", "rounds"], 7, "TypeError"),
        (["figures", 0, "own", "calls"], float("inf"), "OverflowError"),
        (["figures", 0, "ceiling", "rounds"], [1.0], "lacks rounds"),
        (["figures", 0, "ceiling", "rounds"], [0.0, 0.0], "is held against nothing"),
        (["figures"], [3], "TypeError"),
        (["machine"], None, "TypeError"),
        (["load_average"], [[1.0]], "ValueError"),
        (["other_cores"], "many", "ValueError"),
    ],
)
def test_malformed_file_raises_one_line(
    make_figure: Make, make_result: Make, tmp_path: Path, where: list[Any], value: Any, why: str
) -> None:
    path = tmp_path / "result.json"
    data = make_result(make_figure([1.0, 2.0], ceiling=[3.0, 3.0])).to_data()
    path.write_bytes(corrupt(data, where, value))
    with pytest.raises(InputError, match="is no result of assay bench") as caught:
        load(path)
    assert why in caught.value.message
    assert "\n" not in caught.value.message


def test_file_without_background_load_is_read(
    make_figure: Make, make_result: Make, tmp_path: Path
) -> None:
    path = tmp_path / "result.json"
    data = make_result(make_figure([1.0, 2.0])).to_data()
    del data["other_cores"]
    path.write_text(json.dumps(data))
    assert load(path).other_cores is None


def test_a_judged_file_has_its_seal_or_is_from_before_seals(
    make_figure: Make, make_result: Make, tmp_path: Path
) -> None:
    path = tmp_path / "result.json"
    make_result(make_figure([1.0, 2.0])).save(path)
    assert load(path, is_judged=True).unsealed == ""
    data = json.loads(path.read_text())
    del data["sha256"]
    path.write_text(json.dumps(data))
    assert load(path).unsealed == str(path)
    with pytest.raises(InputError, match="expected the sha256 of its content, which files of its"):
        load(path, is_judged=True)
    del data["summary"]
    path.write_text(json.dumps(data))
    assert load(path, is_judged=True).unsealed == str(path)


OTHER = [b"", b"{", b"[]", b"3", b"\xff\xfe", b'"text"', b"{}", b"[" * 100_000]


@pytest.mark.parametrize("content", OTHER, ids=lambda content: repr(content[:8]))
def test_other_content_raises(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is no result of assay bench"):
        load(path)


def test_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*: No such file"):
        load(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"cannot read .*: Is a directory"):
        load(tmp_path)
