"""Stats, verify, audit and next work: each rule is shown a registry that breaks it."""

import copy
import importlib.util
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from call_counting import count_calls
from graphs import RandomGraph, random_graphs
from hypothesis import given, settings, strategies as st

from assay import stack
from assay.answers import plain_data
from assay.catalog.sourced_value import SourcedValue
from assay.errors import InputError
from assay.model import (
    ANY_SIGN,
    POSITIVE,
    UNSOURCED,
    Registry,
    Scope,
    Symbol,
    by_definition,
    ceil,
    cited,
    exp,
    log2,
    maximum,
    minimum,
    number,
    sqrt,
    store,
    tanh,
    where,
)
from assay.model.auditing import verify_numeric
from assay.model.auditing.audit import audit, stats
from assay.model.auditing.duplicates import duplicate_relations, similar_variables
from assay.model.auditing.formulas import POINTS
from assay.model.auditing.verify import VerifyCheck, verify
from assay.model.language.encoding import decode, encode
from assay.model.language.expression import Expression, as_sympy
from assay.model.tapes.compile import Compiled
from assay.model.tapes.program import TapeProgram
from assay.scenario import Preset
from assay.scenario.work import next_work

BOOK = cited("A Book", "p. 1")


def sound() -> Registry:
    """Two scopes that break no rule; every kind of arithmetic occurs."""
    low = Scope("low", "Below")
    k = low.constant("k", "k", "2 J/K", "heat capacity", reference=BOOK)
    t = low.variable(
        "t", "T", "K", "temperature", bounds=POSITIVE, boundary="scenario", reference=BOOK
    )
    n = low.variable("n", "n", "1", "count", boundary="primitive", reference=by_definition())
    e = low.variable("e", "E", "J", "energy", display="kJ", equals=k * t, reference=BOOK)
    high = Scope("high", "Above")
    root = high.variable(
        "root", "r", "J", "root of squares", equals=sqrt(e * e + (n * e) ** 2), reference=BOOK
    )
    shape = high.variable(
        "shape", "s", "1", "shape", bounds=ANY_SIGN, reference=by_definition(),
        equals=tanh(n) + exp(-n) * log2(1 + n) - minimum(n, 5) / maximum(n, 2) + ceil(n),
    )  # fmt: skip
    high.variable(
        "answer", "a", "J", "answer", target=True, reference=by_definition(),
        equals=where(shape > 1, root * abs(shape), root + e),
    )  # fmt: skip
    rule = high.variable("rule", "b", "J", "rule of thumb", target=True)
    high.approximation(rule, 3 * e, name="rule_small", valid=n < 10, reference=BOOK)
    cases = high.variable("cases", "c", "1", "by cases", bounds=ANY_SIGN, target=True)
    high.piecewise(cases, [(n < 1, n), (n < 10, n**1.5)], otherwise=2 * n, reference=BOOK)
    high.inequality("warm", t > number("1 mK"), "above absolute zero", reference=BOOK)
    return Registry.from_scopes([low, high])


# Stats


def test_stats_of_a_small_registry() -> None:
    assert stats(sound()) == {
        "systems": 2, "variables": 8, "constants": 1, "relations": 7,
        "distinct_relations": 7, "template_copies": 0, "root_inputs": 2, "leaves": 3,
        "cycles": 0, "families": 2, "unit_checked": 7, "variables_referenced": 8,
        "relations_referenced": 7, "reachable": 7, "library": 0,
    }  # fmt: skip


def test_stats_count_faults() -> None:
    scope = Scope("s", "wrong in many ways")
    a = scope.variable("a", "a", "1", "first")
    b = scope.variable("b", "b", "1", "second", equals=2 * a)
    scope.equation(a, b / 2)
    scope.variable("c", "c", "1", "third", equals=a + b, library=True)
    data = copy.deepcopy(dict(Registry.from_scopes([scope]).to_data()))
    data["scopes"][0]["variables"][2]["unit"] = "s"
    counted = stats(Registry(data))
    assert counted["cycles"] == 1
    assert counted["unit_checked"] == 2
    assert counted["variables_referenced"] == counted["relations_referenced"] == 0
    assert counted["reachable"] == 0
    assert counted["library"] == 1


def test_stats_of_the_stack_are_consistent() -> None:
    counted = stats(stack.registry())
    assert all(type(value) is int for value in counted.values())
    assert counted["unit_checked"] == counted["relations"]
    assert counted["cycles"] == 0
    assert counted["reachable"] + counted["library"] >= counted["relations"]


# Verify, the fast profile


def test_valid_registry_passes_verify() -> None:
    report = verify(sound())
    assert report.ok
    assert {check.status for check in report.checks} == {"ok"}
    assert all(check.details == () for check in report.checks)
    assert {c.name: c.count for c in report.checks}["units"] == 7


def test_stack_passes_verify() -> None:
    report = verify(stack.registry())
    assert report.ok, [check for check in report.checks if check.status == "failed"]
    assert json.loads(json.dumps(report.to_data()))["ok"] is True


def find(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = (entry for entry in entries if entry["name"] == name)
    return found


def unknown_input(scopes: list[dict[str, Any]]) -> None:
    parts = find(scopes[0]["relations"], "low.e")["parts"]
    parts["expression"] = parts["expression"].replace("low.k", "low.kk")


def unknown_member(scopes: list[dict[str, Any]]) -> None:
    block = {"name": "high.pair", "scope": "high", "members": ["high.none"], "starts": {}}
    scopes[1]["blocks"].append(block)


def scopes_reversed(scopes: list[dict[str, Any]]) -> None:
    scopes.reverse()


def wrong_unit(scopes: list[dict[str, Any]]) -> None:
    find(scopes[0]["variables"], "low.e")["unit"] = "Wh"


def wrong_display(scopes: list[dict[str, Any]]) -> None:
    find(scopes[0]["variables"], "low.e")["display"] = "kg"


def nothing_cited(scopes: list[dict[str, Any]]) -> None:
    find(scopes[1]["relations"], "high.root")["reference"] = ["cited", "", "p. 1"]


def hearsay(scopes: list[dict[str, Any]]) -> None:
    find(scopes[0]["variables"], "low.k")["reference"] = ["hearsay", "somebody", ""]


def no_boundary(scopes: list[dict[str, Any]]) -> None:
    find(scopes[0]["variables"], "low.t")["boundary"] = None


def odd_boundary(scopes: list[dict[str, Any]]) -> None:
    find(scopes[0]["variables"], "low.t")["boundary"] = "elsewhere"


def boundary_inside(scopes: list[dict[str, Any]]) -> None:
    find(scopes[0]["variables"], "low.e")["boundary"] = "scenario"


def cycle(scopes: list[dict[str, Any]]) -> None:
    parts = find(scopes[1]["relations"], "high.root")["parts"]
    parts["expression"] = encode(Symbol("high.answer"))


def no_validity(scopes: list[dict[str, Any]]) -> None:
    del find(scopes[1]["relations"], "high.rule_small")["parts"]["valid"]


def repeated(scopes: list[dict[str, Any]]) -> None:
    again = copy.deepcopy(find(scopes[0]["relations"], "low.e"))
    again["name"] = "low.again"
    again["parts"]["expression"] = encode(Symbol("low.t") * Symbol("low.k"))
    scopes[0]["relations"].append(again)


@pytest.mark.parametrize(
    ("break_it", "rule", "said"),
    [
        (unknown_input, "names", "relation low.e refers to an unknown variable low.kk"),
        (unknown_member, "names", "unknown variable high.none"),
        (scopes_reversed, "order", "in scope high refers to low.e in the later scope low"),
        (wrong_unit, "units", "left side is Wh, right side is J"),
        (wrong_display, "display units", "low.e is declared in J and displayed in kg"),
        (nothing_cited, "references", "relation high.root: cites no work"),
        (hearsay, "references", 'low.k: unknown kind of reference "hearsay"'),
        (no_boundary, "boundaries", "root low.t declares no boundary"),
        (odd_boundary, "boundaries", 'root low.t has the unknown boundary "elsewhere"'),
        (boundary_inside, "boundaries", "low.e has boundary scenario although"),
        (cycle, "cycles", "high.root -> high.answer -> high.root"),
        (no_validity, "validity", "high.rule_small does not say where it is valid"),
        (repeated, "repeated relations", "low.e and low.again state the same"),
    ],
)
def test_every_rule_finds_its_fault(
    break_it: Callable[[list[dict[str, Any]]], None], rule: str, said: str
) -> None:
    data = copy.deepcopy(dict(sound().to_data()))
    break_it(data["scopes"])
    report = verify(Registry(data))
    assert not report.ok
    (check,) = (check for check in report.checks if check.name == rule)
    assert check.status == "failed"
    assert any(said in detail for detail in check.details), check.details


def test_unresolved_names_skip_the_other_rules() -> None:
    data = copy.deepcopy(dict(sound().to_data()))
    unknown_input(data["scopes"])
    first, *rest = verify(Registry(data), "full").checks
    assert first.status == "failed"
    assert {check.status for check in rest} == {"skipped"}


def test_reported_findings_do_not_fail() -> None:
    scope = Scope("s", "odd but allowed")
    a = scope.variable("a", "a", "1", "first input", boundary="scenario")
    b = scope.variable("b", "b", "1", "second input", boundary="scenario")
    x = scope.variable("x", "x", "1", "number of layers", equals=a * b, target=True)
    scope.equation(x, a + b, name="x_sum")
    scope.variable("y", "y", "1", "the layers, their number", equals=b * a, library=True)
    report = verify(Registry.from_scopes([scope]))
    assert report.ok
    details = {check.name: check.details for check in report.checks if check.details}
    assert details == {
        "choices": ("s.x needs a choice among s.x, s.x_sum",),
        "equal relations": ("s.x and s.y have the same right-hand side",),
        "similar variables": ("s.x and s.y mean nearly the same, in the same unit",),
    }


def test_relation_that_reaches_no_target_fails() -> None:
    scope = Scope("s", "one relation too many")
    a = scope.variable("a", "a", "1", "input", boundary="scenario")
    scope.variable("x", "x", "1", "answer", equals=2 * a, target=True)
    scope.variable("y", "y", "1", "of no use", equals=3 * a)
    (check,) = (c for c in verify(Registry.from_scopes([scope])).checks if c.status == "failed")
    assert check.name == "reachability"
    assert check.details == ("s.y reaches no target and is not tagged library",)


def test_templates_are_no_duplicates() -> None:
    scope = Scope("s", "one template, two uses")
    a = scope.variable("a", "a", "1", "input", boundary="scenario")
    for use in ("first", "second"):
        scope.variable(f"{use}.time", "t", "1", "time of a product", equals=2 * a, target=True)
    registry = Registry.from_scopes([scope])
    assert duplicate_relations(registry) == []
    assert similar_variables(registry) == []


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(InputError, match='unknown profile "slow"'):
        verify(sound(), "slow")  # type: ignore[arg-type]


# Verify, the full profile


def full(registry: Registry, *, read_only: bool = True) -> dict[str, VerifyCheck]:
    report = verify(registry, "full", read_only)
    return {check.name: check for check in report.checks}


def test_all_evaluation_paths_agree() -> None:
    report = verify(sound(), "full", read_only=True)
    checks = {check.name: check for check in report.checks}
    assert report.ok, [check for check in report.checks if check.status == "failed"]
    assert {check.status for check in report.checks} == {"ok"}
    assert checks["tapes"].count == 7 * POINTS
    assert checks["sympy"].count == 7 * POINTS
    assert checks["derivatives"].count >= 20
    assert checks["cones"].count == 3
    assert checks["encoding"].count == 12


@pytest.mark.slow
def test_all_evaluation_paths_of_the_stack_agree() -> None:
    report = verify(stack.registry(), "full", read_only=True)
    assert report.ok, [check for check in report.checks if check.status == "failed"]


@settings(max_examples=10)
@given(random_graphs(max_relations=8))
def test_all_evaluation_paths_of_random_graphs_agree(graph: RandomGraph) -> None:
    report = verify(graph.registry, "full", read_only=True)
    assert report.ok, [check for check in report.checks if check.status == "failed"]


def test_a_wrong_instruction_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    emit = TapeProgram.emit

    def wrong(self: TapeProgram, operation: str, *operands: Any, literal: int = 0) -> Any:
        operation = "minimum" if operation == "maximum" else operation
        return emit(self, operation, *operands, literal=literal)

    monkeypatch.setattr(TapeProgram, "emit", wrong)
    checks = full(sound())
    assert checks["tapes"].status == "failed"
    assert all("high.shape: the tape gives" in detail for detail in checks["tapes"].details)
    assert checks["cones"].status == "failed"


def test_a_wrong_derivative_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    jacobian = Compiled.jacobian

    def wrong(self: Compiled, *arguments: Any, **named: Any) -> Any:
        return jacobian(self, *arguments, **named) * 1.00001

    monkeypatch.setattr(Compiled, "jacobian", wrong)
    checks = full(sound())
    assert checks["derivatives"].status == "failed"
    assert (
        "low.e: the derivative by low.t gives 2.00002, expected 2"
        in checks["derivatives"].details[0]
    )
    assert checks["tapes"].status == "ok"


def test_a_wrong_translation_to_sympy_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(expression: Expression) -> Any:
        symbolic = as_sympy(expression)
        return symbolic if symbolic.is_Relational else symbolic * 1.0001

    monkeypatch.setattr(verify_numeric, "as_sympy", wrong)
    assert full(sound())["sympy"].status == "failed"


def test_missing_sympy_skips_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    report = verify(sound(), "full", read_only=True)
    (check,) = (check for check in report.checks if check.name == "sympy")
    assert (check.status, check.details) == ("skipped", ("SymPy is not installed",))
    assert report.ok


def test_a_lossy_encoding_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_numeric, "decode", lambda entries: -decode(entries))
    assert full(sound())["encoding"].status == "failed"


def test_a_registry_that_differs_from_its_data_is_found() -> None:
    registry = sound()
    registry.variables["low.t"].upper = 5.0
    checks = full(registry)
    assert (checks["data"].status, checks["data"].details) == ("failed", ("low.t differs",))


def test_relations_without_a_finite_point_are_noted() -> None:
    scope = Scope("s", "nowhere finite")
    a = scope.variable("a", "a", "1", "input", boundary="scenario")
    scope.variable("b", "b", "1", "output", equals=sqrt(-1 - a), target=True)
    report = verify(Registry.from_scopes([scope]), "full", read_only=True)
    assert report.ok
    notes = {check.name: check.details for check in report.checks if check.details}
    assert "s.b has no finite value" in notes["tapes"][0]
    assert "s.b has no finite value" in notes["cones"][0]
    assert notes["derivatives"] == ("s.b: no difference quotient for s.a",)


def test_targets_that_cannot_be_compiled_are_noted() -> None:
    scope = Scope("s", "drawn")
    a = scope.variable("a", "a", "1", "input", boundary="scenario")
    b = scope.variable("b", "b", "1", "output", target=True)
    scope.stochastic(b, "normal", a, a)
    report = verify(Registry.from_scopes([scope]), "full", read_only=True)
    (check,) = (check for check in report.checks if check.name == "cones")
    assert check.status == "ok"
    assert check.details[0].startswith("s.b is not compiled: stochastic relation s.b cannot")


def test_read_only_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    assert verify(sound(), "full", read_only=True).ok
    assert list(tmp_path.rglob("*")) == []
    assert verify(sound(), "full").ok
    # All targets are compiled together.
    assert len(list(tmp_path.rglob("*.tape"))) == 1


def test_stored_tape_of_another_cone_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    assert verify(sound(), "full").ok
    for path in tmp_path.rglob("*.tape"):
        other = Registry.from_scopes([_one_input()]).compile(["s.a"], ["s.b"]).tape
        store.write_cache(path, other.to_bytes())
    (check,) = (c for c in verify(sound(), "full").checks if c.name == "cones")
    assert check.status == "failed"
    assert any("is not what lowering gives" in detail for detail in check.details)


def _one_input() -> Scope:
    scope = Scope("s", "one input")
    a = scope.variable("a", "a", "1", "input", boundary="scenario")
    scope.variable("b", "b", "1", "output", equals=a + 1)
    return scope


# Duplicates


a, b, c = (Symbol(f"s.{name}") for name in "abc")


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (a * b * c, c * (b * a), True),
        (a + b - c, b - c + a, True),
        (a - b, b - a, False),
        (a - (b - c), a - b + c, True),
        (a / b / c, a / (b * c), True),
        (a / (b / c), a * c / b, True),
        (-(a - b), b - a, True),
        (a - -(b * c), a + c * b, True),
        (minimum(a, b, c), minimum(c, minimum(b, a)), True),
        (minimum(a, b), maximum(a, b), False),
        (where(a < b, a, b), where(b > a, a, b), True),
        (where(a < b, a, b), where(a < b, b, a), False),
        (a**b, b**a, False),
        (a * 2, a * 3, False),
        (a + number("2 B") / number("1 B"), a + number("2 s") / number("1 s"), False),
    ],
)
def test_equal_relations(left: Expression, right: Expression, same: bool) -> None:
    scope = Scope("s", "pairs")
    for name in "abc":
        scope.variable(name, name, "1", name)
    scope.variable("x", "x", "1", "one", equals=left)
    scope.variable("y", "y", "1", "two", equals=right)
    found = duplicate_relations(Registry.from_scopes([scope]))
    assert [d.relations for d in found] == ([("s.x", "s.y")] if same else [])


def test_equal_constraints_and_iterations() -> None:
    scope = Scope("s", "pairs")
    x = scope.variable("x", "x", "1", "one")
    y = scope.variable("y", "y", "1", "two")
    scope.inequality("first", x <= y, "below")
    scope.inequality("second", y >= x, "above")
    scope.inequality("third", y > x, "strictly above")
    scope.variable("p", "p", "1", "three")
    found = duplicate_relations(Registry.from_scopes([scope]))
    assert [d.relations for d in found] == [("s.first", "s.second")]


def test_similar_meanings_need_the_same_unit() -> None:
    scope = Scope("s", "meanings")
    scope.variable("a", "a", "W", "power drawn by the fans of one node")
    scope.variable("b", "b", "W", "power drawn by one node's fan")
    scope.variable("c", "c", "J", "power drawn by the fans of one node")
    scope.variable("d", "d", "W", "power drawn by the pumps of one node")
    scope.variable("e", "e", "W", "")
    scope.variable("f", "f", "W", "")
    assert similar_variables(Registry.from_scopes([scope])) == [("s.a", "s.b")]


@given(st.lists(st.frozensets(st.sampled_from("vwxyz"), max_size=5), max_size=12))
def test_similar_meanings_are_those_of_all_pairs(meanings: list[frozenset[str]]) -> None:
    scope = Scope("s", "meanings")
    for index, words in enumerate(meanings):
        scope.variable(f"v{index}", "v", "1", " ".join(sorted(words)))
    expected = {
        (f"s.v{i}", f"s.v{j}")
        for (i, first), (j, second) in combinations(enumerate(meanings), 2)
        if first and second and 5 * len(first & second) >= 4 * len(first | second)
    }
    found = similar_variables(Registry.from_scopes([scope]))
    assert len(found) == len(expected)
    assert set(found) == expected


# Audit


def test_audit_lists_weak_references() -> None:
    scope = Scope("s", "weak in every way")
    scope.constant("g", "g", "9.8 m/s^2", "gravity", reference=cited("A Book"))
    r = scope.variable("r", "r", "1", "root", boundary="needs-source", reference=UNSOURCED)
    u = scope.variable("u", "u", "1", "unreached root", reference=BOOK)
    x = scope.variable("x", "x", "1", "answer", target=True, equals=2 * r)
    z = scope.variable("z", "z", "1", "beside", equals=u + 1, reference=cited("A Book"))
    w = scope.variable("w", "w", "1", "again beside", equals=1 + u, reference=BOOK)
    scope.approximation(z, u, name="z_rule", valid=u > 9, reference=by_definition("no"))
    scope.inequality("small", w < 10 * w, "w is small", reference=BOOK)
    report = audit(Registry.from_scopes([scope]))
    assert report.to_data() == {
        "referenced": {"relations": pytest.approx(4 / 5), "variables": pytest.approx(3 / 5)},
        "cited": {"relations": pytest.approx(3 / 5), "variables": pytest.approx(3 / 5)},
        "coverage": {
            "relations": {"cited": 3, "fitted": 0, "definition": 1, "unsourced": 1},
            "variables": {"cited": 3, "fitted": 0, "definition": 0, "unsourced": 2},
        },
        "relation_kinds": {
            "equation": {"cited": 2, "fitted": 0, "definition": 0, "unsourced": 1},
            "approximation": {"cited": 0, "fitted": 0, "definition": 1, "unsourced": 0},
            "inequality": {"cited": 1, "fitted": 0, "definition": 0, "unsourced": 0},
        },
        "unreached_relations": ["s.z", "s.w", "s.z_rule", "s.small"],
        "unreached_roots": ["s.u"],
        "duplicates": [["s.z", "s.w"]],
        "similar_variables": [],
        "weak_references": [
            {"name": "s.x", "of": "relation", "why": "unsourced"},
            {"name": "s.z", "of": "relation", "why": "cites a work without the place in it"},
            {
                "name": "s.z_rule",
                "of": "relation",
                "why": "an approximation cannot hold by definition",
            },
            {"name": "s.g", "of": "constant", "why": "cites a work without the place in it"},
            {"name": "s.r", "of": "root", "why": "unsourced"},
        ],
        "roots_by_boundary": {"needs-source": ["s.r"], "undeclared": ["s.u"]},
        "unused_constants": ["s.g"],
    }
    assert x.name == "s.x"


def test_audit_of_an_empty_registry() -> None:
    report = audit(Registry.from_scopes([Scope("s", "empty")]))
    assert report.shares == {"relations": 1.0, "variables": 1.0}


# Next work


def indebted() -> Registry:
    scope = Scope("s", "in debt")
    p = scope.variable("p", "p", "1", "far below", boundary="decompose", reference=BOOK)
    q = scope.variable("q", "q", "1", "near", boundary="needs-source", reference=BOOK)
    s = scope.variable("s", "s", "1", "chosen", boundary="scenario", reference=BOOK)
    m = scope.variable("m", "m", "1", "middle", equals=p + s, reference=UNSOURCED)
    scope.variable("x", "x", "1", "answer", target=True, equals=m + q, reference=BOOK)
    scope.variable("y", "y", "1", "beside", equals=2 * m, reference=BOOK)
    scope.variable("l", "l", "1", "kept", equals=3 * s, reference=BOOK, library=True)
    return Registry.from_scopes([scope])


def test_work_is_ranked_by_dependents() -> None:
    items = next_work(indebted())
    assert [(item.kind, item.name, item.dependents) for item in items] == [
        ("decompose root", "s.p", 3),
        ("source relation", "s.m", 2),
        ("connect relation", "s.y", 0),
        ("source root", "s.q", 1),
    ]
    assert [item.weight for item in items] == [3 / 4, 3 / 4, 1 / 4, 1 / 4]
    assert json.loads(json.dumps(plain_data(items)))[0]["name"] == "s.p"


def scenario(registry: Registry, **values: tuple[str, str]) -> Preset:
    given = {
        f"s.{name}": SourcedValue(text, "a source", kind) for name, (text, kind) in values.items()
    }
    return Preset("trial", "", registry, given, targets=(("answer", "s.x"),))


def test_assumed_inputs_are_ranked_by_share_of_variance() -> None:
    registry = indebted()
    # x = p + s + q, independent: variances 9, 1 and 0, so that p holds nine tenths.
    preset = scenario(
        registry,
        p=("normal(50, 3)", "assumed"),
        s=("normal(50, 1)", "measured"),
        q=("1", "assumed"),
    )
    (item,) = (item for item in next_work(registry, preset) if item.kind == "measure input")
    assert (item.name, item.target) == ("s.p", "s.x")
    assert item.weight == pytest.approx(0.9, abs=0.05)
    assert item.reason.startswith("an assumed value on which ")


def test_target_without_a_value_is_listed_as_work() -> None:
    registry = indebted()
    items = next_work(registry, scenario(registry, p=("1..2", "assumed")))
    assert items[0].kind == "complete scenario"
    assert items[0].reason == "s.x needs 2 more inputs: s.q, s.s"


def chain(length: int) -> Registry:
    scope = Scope("s", "a chain of relations")
    links = [scope.variable("v0", "v", "1", "start", boundary="scenario")]
    for index in range(1, length + 1):
        links.append(
            scope.variable(f"v{index}", "v", "1", f"link number {index}", equals=links[-1] + index)
        )
    return Registry.from_scopes([scope])


def test_work_of_verify_is_linear_in_the_number_of_relations() -> None:
    half, full = chain(750), chain(1500)
    assert verify(full).ok
    assert count_calls(lambda: verify(full)) <= 2.2 * count_calls(lambda: verify(half))
