"""The printed table of a result."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from assay.bench.harness.comparison import compare
from assay.bench.harness.merging import merged
from assay.bench.harness.table import TIMES_AT_MOST, columns_of, conditions, markdown, rows
from assay.errors import AssayError

Make = Callable[..., Any]


def test_cells(make_figure: Make, make_result: Make) -> None:
    figure = make_figure(
        [9.0, 10.0, 11.0, 10.0, 10.0, 10.0],
        ceiling=[20.0] * 6,
        rivals={"NumPy": [5.0] * 6, "SymPy": [0.01, None, None, None, 0.01, None]},
    )
    header, (line,) = rows(make_result(figure))
    assert dict(zip(header, line, strict=True)) == {
        "figure": "thing",
        "value": "10",
        "unit": "GB/s",
        "spread": "10%",
        "of ceiling": "50% (45-55)",
        "check": "0e+00",
        "over rivals": "NumPy 2.00 (1.80 to 2.20); SymPy 950 (too few rounds); "
        "PyTorch not installed",
    }


def test_comparison_adds_a_column(make_figure: Make, make_result: Make) -> None:
    now = make_result(make_figure([2.0] * 9), make_figure([1.0], name="new"))
    then = make_result(make_figure([4.0] * 9))
    header, lines = rows(now, compare(now, then))
    column = header.index("now over then")
    assert [line[column] for line in lines] == ["regressed 0.50 (0.50 to 0.50)", "not in the file"]
    invalid = compare(now, make_result(make_figure([4.0] * 9), fingerprint="other"))
    assert rows(now, invalid)[1][0][column] == "invalid: measured on another machine or device"


def test_conditions_warn_of_cache_hits_and_background_load(
    make_figure: Make, make_result: Make
) -> None:
    quiet = make_result(
        make_figure([1.0] * 7, ceiling=[2.0] * 7), make_figure([1.0] * 7, name="b", cold=False)
    )
    text = conditions(quiet)
    assert "b: inputs fit into the cache: not cold" in text
    assert "ceiling: read, 2 GB/s" in text
    assert any("torch not installed" in line for line in text)
    assert not any("busy" in line for line in text)
    # The load average alone may be our own previous suite: no warning.
    later = dataclasses.replace(quiet, load_average=((3.0, 3.0, 3.0), (3.0, 3.0, 3.0)))
    assert not any("busy" in line for line in conditions(later))
    busy = dataclasses.replace(quiet, other_cores=1.5, quick=True)
    text = conditions(busy)
    assert any("busy" in line for line in text)
    assert any("quick: a look, not a claim" in line for line in text)


@pytest.mark.parametrize("name", ["a|b", "plain"])
def test_markdown_keeps_its_columns(make_figure: Make, make_result: Make, name: str) -> None:
    text = markdown(make_result(make_figure([1.0] * 7, name=name)))
    header, rule, line = [one for one in text.splitlines() if one.startswith("|")]
    assert header.count("|") == rule.count("|") == line.replace("\\|", "").count("|")


@pytest.mark.parametrize(("own", "verdict"), [(3.9, "met"), (4.1, "MISSED")])
def test_bars_are_printed_with_their_verdict(
    make_figure: Make, make_result: Make, own: float, verdict: str
) -> None:
    figure = make_figure([own] * 7, unit="ms", rivals={"import numpy": [1.0] * 7})
    barred = dataclasses.replace(figure, parameters={TIMES_AT_MOST: 4})
    text = conditions(make_result(barred))
    times = f"{own:.2f} ({own:.2f} to {own:.2f})"
    assert f"thing: {times} times as long as import numpy, bar 4: {verdict}" in text
    assert not any("bar" in line for line in conditions(make_result(figure)))


def test_quantiles_are_columns_of_ours_and_of_rivals(make_figure: Make, make_result: Make) -> None:
    samples = [float(value) for value in range(1, 102)]
    figure = make_figure(samples, rivals={"NumPy": [2 * value for value in samples]})
    header, (line,) = rows(make_result(figure), columns=columns_of("min, p50,p99"))
    cells = dict(zip(header, line, strict=True))
    assert [cells[name] for name in ("min", "p50", "p99")] == [
        "1; NumPy 2",
        "51; NumPy 102",
        "100; NumPy 200",
    ]
    assert "| min | p99 |" in markdown(make_result(figure), columns=["min", "p99"])
    with pytest.raises(AssayError, match='"p95"'):
        columns_of("p50,p95")


def test_stages_and_notes_of_several_seeds_are_printed_once(
    make_figure: Make, make_result: Make
) -> None:
    by_seed = {
        seed: dataclasses.replace(
            make_figure([1.0] * 3),
            note=f"no floor; seed {seed}",
            stages={"sort": {"assay": [seed * 1e-6], "NumPy": [2e-6 * seed]}},
        )
        for seed in (1, 2, 3)
    }
    figure = merged(by_seed)
    assert figure.note == "no floor; seed 1; seed 2; seed 3"
    result = dataclasses.replace(make_result(figure), summary="geometric mean: 2 us")
    lines = conditions(result)
    assert "geometric mean: 2 us" in lines
    assert [line for line in lines if line.startswith("sort")] == [
        "sort: p50 2.0 us, p99 3.0 us, NumPy p50 4.0 us, p99 6.0 us"
    ]
