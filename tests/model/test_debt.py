"""Root debt: ranking of roots by what depends on them and by shares of variance."""

from __future__ import annotations

import json

import pytest
from call_counting import count_calls

from assay.answers import plain_data
from assay.bench.suites.generated_graphs import generate
from assay.errors import InputError, MissingInputsError, UnknownNameError
from assay.model import ANY_SIGN, Registry, Scope, by_definition
from assay.model.auditing.debt import CERTAIN, UNUSED, root_debt
from assay.model.inputs import Given


@pytest.fixture(scope="module")
def registry() -> Registry:
    """Two layers, a constraint, a stochastic relation, and roots of every boundary."""
    low = Scope("low", "the lower layer")
    data = by_definition("for the test")
    a = low.variable(
        "pair.a", "a", "1", "first", boundary="primitive", reference=data, bounds=ANY_SIGN
    )
    b = low.variable("pair.b", "b", "1", "second", boundary="decompose", bounds=ANY_SIGN)
    c = low.variable("c", "c", "1", "third", bounds=ANY_SIGN)
    x = low.variable("x", "x", "1", "x", equals=a + 2 * b, bounds=ANY_SIGN)
    high = Scope("high", "the upper layer")
    d = high.variable("d", "d", "m", "fourth", boundary="scenario", display="km", bounds=ANY_SIGN)
    y = high.variable("y", "y", "1", "y", equals=x + c, target=True, bounds=ANY_SIGN)
    z = high.variable("z", "z", "m", "z", equals=y * d, target=True, bounds=ANY_SIGN)
    noise = high.variable("noise", "n", "1", "noise", bounds=ANY_SIGN)
    high.stochastic(noise, "normal", 0 * c, 1 + 0 * c)
    high.variable("seen", "s", "1", "y as observed", equals=y + noise, target=True, bounds=ANY_SIGN)
    high.inequality("limit", z <= 10 * d, "z stays small")
    high.inequality("order", a <= b, "the pair is ordered")
    return Registry.from_scopes([low, high])


def test_roots_are_ranked_by_the_relations_downstream(registry: Registry) -> None:
    rows = root_debt(registry)
    # c: y, z, seen, noise. a and b: x, y, z, seen. d: z.
    assert [(row.name, row.dependents) for row in rows] == [
        ("low.c", 4),
        ("low.pair.a", 4),
        ("low.pair.b", 4),
        ("high.d", 1),
    ]
    first, pair_a, pair_b, last = rows
    assert first.boundary == "undeclared"
    assert (pair_a.boundary, pair_b.boundary, last.boundary) == (
        "primitive",
        "decompose",
        "scenario",
    )
    assert first.targets == ("high.y", "high.z", "high.seen")
    assert last.targets == ("high.z",)
    assert (pair_a.has_reference, pair_b.has_reference) == (True, False)
    assert (last.unit, last.meaning) == ("km", "fourth")
    assert {row.variance_share for row in rows} == {None}
    assert {row.note for row in rows} == {""}


def test_constraints_count_on_request(registry: Registry) -> None:
    rows = {row.name: row.dependents for row in root_debt(registry, include_constraints=True)}
    # `limit` hangs on all roots through z, `order` on the pair.
    assert rows == {"low.c": 5, "low.pair.a": 6, "low.pair.b": 6, "high.d": 2}


def test_families_count_each_relation_once(registry: Registry) -> None:
    rows = {row.name: row for row in root_debt(registry, families=True)}
    assert set(rows) == {"low.pair", "low", "high"}
    pair = rows["low.pair"]
    assert pair.dependents == 4
    assert pair.members == ("low.pair.a", "low.pair.b")
    assert pair.boundary == "primitive, decompose"
    assert pair.has_reference is False
    assert pair.targets == ("high.y", "high.z", "high.seen")


def test_a_target_limits_the_list_to_its_own_roots(registry: Registry) -> None:
    assert [row.name for row in root_debt(registry, target="high.y")] == [
        "low.c",
        "low.pair.a",
        "low.pair.b",
    ]
    assert [row.name for row in root_debt(registry, limit=2)] == ["low.c", "low.pair.a"]
    assert root_debt(registry, limit=0) == []


def test_roots_are_ranked_by_their_share_of_the_variance(registry: Registry) -> None:
    given: dict[str, Given] = {
        "low.pair.a": "normal(0, 3)", "low.pair.b": "normal(0, 2)", "low.c": 1.0,
    }  # fmt: skip
    rows = root_debt(registry, by="variance", target="high.y", given=given)
    # y = a + 2 b + c: variances 9 and 16.
    assert [row.name for row in rows] == ["low.pair.b", "low.pair.a", "low.c"]
    assert rows[0].variance_share == pytest.approx(16 / 25, abs=0.02)
    assert rows[1].variance_share == pytest.approx(9 / 25, abs=0.02)
    assert rows[0].first_order_share == pytest.approx(16 / 25, abs=0.02)
    assert rows[0].share_half_width is not None
    assert 0 < rows[0].share_half_width < 0.2
    assert rows[2].variance_share is None
    assert rows[2].note == CERTAIN
    assert rows.degradations == ()


def test_families_share_the_variance_as_groups(registry: Registry) -> None:
    given: dict[str, Given] = {
        "low.pair.a": "normal(0, 3)", "low.pair.b": "normal(0, 2)", "low.c": "normal(0, 5)",
        "high.d": "1 km",
    }  # fmt: skip
    rows = root_debt(registry, by="variance", target="high.z", given=given, families=True)
    assert {row.name for row in rows[:2]} == {"low.pair", "low"}
    assert [row.variance_share for row in rows[:2]] == pytest.approx([0.5, 0.5], abs=0.03)
    assert (rows[2].name, rows[2].note) == ("high", CERTAIN)


def test_interactions_count_for_every_source_involved() -> None:
    scope = Scope("p", "a product of two centered numbers")
    a, b = (scope.variable(n, n, "1", n, boundary="scenario", bounds=ANY_SIGN) for n in "ab")
    scope.variable("y", "y", "1", "y", equals=a * b, bounds=ANY_SIGN, target=True)
    rows = root_debt(
        Registry.from_scopes([scope]),
        by="variance",
        target="p.y",
        given={"p.a": "normal(0, 1)", "p.b": "normal(0, 1)"},
    )
    for row in rows:
        assert row.variance_share == pytest.approx(1.0, abs=0.1)
        assert row.first_order_share == pytest.approx(0.0, abs=0.1)


def test_pinned_and_stochastic_sources_are_listed(registry: Registry) -> None:
    given: dict[str, Given] = {"low.x": "normal(0, 1)", "low.c": 1.0}
    rows = {
        row.name: row for row in root_debt(registry, by="variance", target="high.seen", given=given)
    }
    assert rows["low.x"].boundary == "pinned"
    assert rows["high.noise"].boundary == "stochastic"
    for name in ("low.x", "high.noise"):
        assert rows[name].variance_share == pytest.approx(0.5, abs=0.03)
    # x was given, so what would define it is not used.
    assert rows["low.pair.a"].note == UNUSED
    assert rows["low.c"].note == CERTAIN


def test_rows_are_plain_data(registry: Registry) -> None:
    given: dict[str, Given] = {"low.x": "normal(0, 1)", "low.c": 1.0}
    rows = root_debt(registry, by="variance", target="high.seen", given=given)
    data = json.loads(json.dumps(plain_data(list(rows))))
    assert data[-1] == {
        "name": "low.pair.b", "boundary": "decompose", "dependents": 4,
        "targets": ["high.y", "high.z", "high.seen"], "unit": "1", "meaning": "second",
        "has_reference": False, "members": [], "variance_share": None,
        "first_order_share": None, "share_half_width": None, "note": "not used",
    }  # fmt: skip


def test_degradations_of_the_shares_are_passed_on() -> None:
    scope = Scope("n", "a positive root")
    a = scope.variable("a", "a", "1", "a", boundary="scenario")
    scope.variable("y", "y", "1", "y", equals=2 * a, target=True)
    rows = root_debt(
        Registry.from_scopes([scope]), by="variance", target="n.y", given={"n.a": "normal(1, 1)"}
    )
    (note,) = rows.degradations
    assert note.startswith("n.a is drawn within its bounds: 0.16 ")


def test_invalid_rankings_are_refused(registry: Registry) -> None:
    with pytest.raises(InputError, match="needs a target"):
        root_debt(registry, by="variance")
    with pytest.raises(InputError, match='unknown ranking "cost"'):
        root_debt(registry, by="cost")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="limit: expected 0 or more, got -1"):
        root_debt(registry, limit=-1)
    with pytest.raises(UnknownNameError, match=r"high\.yy"):
        root_debt(registry, target="high.yy")
    with pytest.raises(MissingInputsError) as refused:
        root_debt(registry, by="variance", target="high.y", given={"low.c": "normal(0, 1)"})
    assert set(refused.value.names) == {"low.pair.a", "low.pair.b"}


def test_ranking_visits_each_relation_at_most_once_per_root() -> None:
    graph = generate(relations=1500, roots=300, targets=4, scopes=10)
    calls = count_calls(lambda: root_debt(graph.registry))
    assert calls <= 5 * 1500 * 300
    rows = root_debt(graph.registry)
    assert len(rows) == 300
    counts = [row.dependents for row in rows]
    assert counts == sorted(counts, reverse=True)
    assert rows[0].dependents == len(graph.registry.graph.downstream_relations(rows[0].name))
