"""Grids cut into parts: enumerated or summarized apart and joined, they are the same to the bit."""

from __future__ import annotations

import hashlib
import json
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from assay.errors import InfeasibleError
from assay.model import ANY_SIGN, Registry, Scope, sqrt
from assay.model.optimizing import grid, sweep_summary
from assay.model.optimizing.grid import EnumerationResult, Grid, grid_parts
from assay.model.optimizing.group import Group
from assay.model.optimizing.optimize import minimize
from assay.model.optimizing.sweep import prepare_sweep
from assay.model.optimizing.sweep_summary import join_summary, summarize_part, summary_parts

X = [float(n) for n in range(-6, 7)]
Y = [-2.0 + 0.5 * n for n in range(11)]
OVER = {"s.x": X, "s.y": Y}


@pytest.fixture
def registry() -> Registry:
    """A target with ties and undefined points; points violate a constraint, or two."""
    scope = Scope("s", "a test")
    x, y = (scope.variable(n, n, "1", "chosen", bounds=ANY_SIGN) for n in "xy")
    scope.variable("f", "f", "1", "", equals=sqrt(x * x + y - 1), bounds=ANY_SIGN)
    scope.inequality("upper", y <= 2.5, "y is small")
    scope.inequality("apart", x * x >= 4, "x is far from zero")
    scope.variable("none", "n", "1", "", equals=x + y, bounds=ANY_SIGN)
    return Registry.from_scopes([scope])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "_LARGEST_CHUNK", 5)
    monkeypatch.setattr(grid, "PART_POINTS", 20)
    monkeypatch.setattr(sweep_summary, "PART_POINTS", 20)
    monkeypatch.setattr(sweep_summary, "CHUNK", 7)


def joined(place: tuple[int, int], group: Group, keep: int, told: Any) -> EnumerationResult:
    total: EnumerationResult | None = None
    parts = grid_parts(group.conditions, group.grid)
    assert len(parts) > 3
    for between in parts:
        data = json.loads(json.dumps(group.enumerate(keep, between=between).to_data()))
        result = EnumerationResult.from_data(data)
        if total is None:
            total = result
        else:
            total.join(result, group.kept(keep))
    assert total is not None
    return total


def test_parts_of_a_large_cone_have_fewer_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    points = Grid([np.arange(960.0), np.arange(960.0)])
    sizes = {}
    for rows in (10, 500):
        parts = grid_parts(cast(Any, SimpleNamespace(rows=rows)), points)
        assert [first for first, _ in parts[1:]] == [last for _, last in parts[:-1]]
        assert (parts[0][0], parts[-1][1]) == (0, 960 * 960)
        sizes[rows] = len(parts)
    # As many points take 50 times as long: two nodes would wait for one part.
    assert sizes == {10: 1, 500: 14}


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("target", ["s.f", "s.none"])
def test_parts_find_what_one_enumeration_finds(
    registry: Registry, target: str, maximize: bool
) -> None:
    whole = minimize(registry, target, OVER, {}, {}, maximize=maximize)
    apart = minimize(registry, target, OVER, {}, {}, maximize=maximize, enumerator=joined)
    assert apart.to_data() == whole.to_data()
    assert len(whole.alternatives) == 5
    points = [(x, y) for x, y in product(X, Y) if y <= 2.5 and x * x >= 4]
    values = [(x * x + y - 1) ** 0.5 if target == "s.f" else x + y for x, y in points]
    assert whole.value == (max if maximize else min)(values)
    # Of equal values the earlier point is the best one.
    x, y = points[values.index(whole.value)]
    assert apart.choices == {"s.x": x, "s.y": y}


def test_parts_agree_on_what_comes_closest(registry: Registry) -> None:
    over = {"s.x": X[5:8], "s.y": Y}

    def refused(enumerator: Any) -> tuple[str, str | None]:
        with pytest.raises(InfeasibleError) as caught:
            minimize(registry, "s.none", over, {}, {}, enumerator=enumerator)
        return caught.value.message, caught.value.hint

    grid.PART_POINTS = 4
    assert refused(joined) == refused(None)


def test_any_number_of_points_is_searched_in_parts(registry: Registry) -> None:
    best = minimize(registry, "s.none", OVER, {}, {}, limit=100, enumerator=joined)
    assert (best.points, best.value) == (143, -8.0)


def test_a_summary_is_that_of_every_point(registry: Registry) -> None:
    prepared = prepare_sweep(registry, ["s.f", "s.none"], OVER, {}, {})
    parts = summary_parts(prepared)
    assert len(parts) == 8
    data = [json.loads(json.dumps(summarize_part(prepared, *part))) for part in parts]
    summary = join_summary(prepared, data)
    points = list(product(X, Y))
    f = np.array([(x * x + y - 1) ** 0.5 if x * x + y >= 1 else np.nan for x, y in points])
    sound = np.array([y <= 2.5 and x * x >= 4 for x, y in points]) & np.isfinite(f)
    assert summary.points == 143
    assert summary.undefined == np.count_nonzero(np.isnan(f))
    assert summary.satisfying == np.count_nonzero(sound)
    of = summary.of["s.f"]
    assert of.defined == np.count_nonzero(np.isfinite(f))
    assert of.mean == pytest.approx(np.nanmean(f), rel=1e-14)
    for name, at in {
        "least": np.nanargmin(f),
        "most": np.nanargmax(f),
        "least_satisfying": np.argmin(np.where(sound, f, np.inf)),
        "most_satisfying": np.argmax(np.where(sound, f, -np.inf)),
    }.items():
        assert of.ends[name] == (f[at], dict(zip(OVER, points[at], strict=True)))
    violated = {
        "s.upper": sum(y > 2.5 for (_, y), value in zip(points, f, strict=True) if value == value),
        "s.apart": sum(
            x * x < 4 for (x, _), value in zip(points, f, strict=True) if value == value
        ),
    }
    assert summary.violations == violated
    digests = [hashlib.sha256(f[first:last].tobytes()).digest() for first, last in parts]
    assert of.digest == hashlib.sha256(b"".join(digests)).hexdigest()
