"""Large expressions are written with their shared parts once."""

import re

from assay.model.graphs.latex import expression_to_latex
from assay.model.language.expression import MOST_NODES, Expression, Symbol, shared_parts, to_text
from assay.model.language.functions import maximum


def doubled(times: int) -> Expression:
    """A part that each step uses twice: two to the power `times` leaves when written out."""
    part: Expression = Symbol("a") + Symbol("b")
    for _ in range(times):
        part = maximum(part * part, part)
    return part


def test_small_expression_is_written_out() -> None:
    assert to_text(doubled(1)) == "max((a + b) * (a + b), a + b)"


def test_shared_parts_are_written_once() -> None:
    text = to_text(doubled(30))
    assert len(text) < 2000
    whole, _, parts = text.partition(", where ")
    defined = re.findall(r"(#\d+) = ", parts)
    assert defined == [f"#{n}" for n in range(1, len(defined) + 1)]
    assert text.count("a + b") == 1
    # Every part that is named is used, and the last one by the whole.
    assert defined[-1] in whole
    assert all(len(re.findall(rf"{name}\b", text)) > 1 for name in defined)


def test_named_parts_come_after_their_operands() -> None:
    seen: set[str] = set()
    for line in to_text(doubled(12)).partition(", where ")[2].split(", #"):
        name, _, right = line.removeprefix("#").partition(" = ")
        assert set(re.findall(r"#(\d+)", right)) <= seen
        seen.add(name)


def test_parts_are_named_by_expanded_size() -> None:
    assert shared_parts(doubled(3)) == {}
    assert MOST_NODES < 4**6
    assert shared_parts(doubled(6))


def test_latex_names_shared_parts() -> None:
    text = expression_to_latex(doubled(30), {"a": "a", "b": "b"})
    assert len(text) < 4000
    assert text.count("a + b") == 1
    assert r"\quad \text{where } s_{1} = a + b" in text
