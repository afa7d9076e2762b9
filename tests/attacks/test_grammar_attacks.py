"""Hostile schemas and grammars: each is refused in bounded time, and the next one is served."""

import time
from typing import Any

import pytest

from assay.engine import StructuredOutput
from assay.engine.requests.grammar_vetting import GrammarVetting
from assay.errors import InputError

SECONDS = 1.0


def chain(length: int) -> dict[str, Any]:
    """Definitions that refer to each other, one inside the other: compilers recurse into them."""
    names = [f"a{index}" for index in range(length)]
    definitions: dict[str, Any] = {
        name: {"type": "object", "properties": {"x": {"$ref": f"#/$defs/{after}"}}}
        for name, after in zip(names, [*names[1:], "end"], strict=True)
    }
    return {"$defs": {**definitions, "end": {"type": "null"}}, "$ref": "#/$defs/a0"}


def nested(depth: int) -> str:
    return '{"items":' * depth + "{}" + "}" * depth


ENDS_THE_COMPILER = {
    "references": StructuredOutput.json_schema(chain(5000)),
    "rules": StructuredOutput.grammar(
        "start: x0\n" + "\n".join(f"x{i}: x{i + 1}" for i in range(9000)) + '\nx9000: "a"'
    ),
    "intersection": StructuredOutput.json_schema(
        {"allOf": [{"type": "string", "pattern": f"a.*{index}.*b"} for index in range(40)]}
    ),
}
REFUSED = {
    "nested": StructuredOutput.json_schema(nested(100_000)),
    "parentheses": StructuredOutput.regex("(" * 5_000 + "a" + ")" * 5_000),
    "enum": StructuredOutput.json_schema({"enum": [f"value {index}" for index in range(90_000)]}),
    "itself": StructuredOutput.json_schema({"$ref": "#"}),
    "circle": StructuredOutput.json_schema(
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    ),
    "tree": StructuredOutput.json_schema(
        {"allOf": [{"anyOf": [{"required": [f"{i}{j}"]} for j in range(9)]} for i in range(9)]}
    ),
    "gbnf": StructuredOutput.grammar("root ::= " + "(" * 2_000 + '"a"' + ")" * 2_000),
    "doubled": StructuredOutput.grammar(
        "start: X0\n" + "\n".join(f"X{i}: X{i + 1} X{i + 1}" for i in range(64)) + '\nX64: "a"'
    ),
}
HARMLESS = {
    "nested quantifiers": StructuredOutput.regex("(a+)+b"),
    "many repeats": StructuredOutput.json_schema(
        {"type": "array", "maxItems": 10**6, "items": {"type": "string", "maxLength": 10**6}}
    ),
}


@pytest.fixture(scope="module")
def vetting():
    vetting = GrammarVetting(SECONDS)
    vetting.check(StructuredOutput.json_object())
    yield vetting
    vetting.close()


@pytest.mark.parametrize("name", [*ENDS_THE_COMPILER, *REFUSED])
def test_hostile_constraints_are_refused_in_time(vetting, name, monkeypatch):
    start = time.perf_counter()
    with pytest.raises(InputError, match="structured output: expected"):
        vetting.check({**ENDS_THE_COMPILER, **REFUSED}[name])
    assert time.perf_counter() - start < SECONDS + 10
    # A second time it is known: no compiler is asked.
    monkeypatch.setattr(vetting, "_ask", None)
    with pytest.raises(InputError, match="structured output: expected"):
        vetting.check({**ENDS_THE_COMPILER, **REFUSED}[name])


@pytest.mark.parametrize("name", HARMLESS)
def test_constraints_that_only_look_hostile_are_served(vetting, name):
    vetting.check(HARMLESS[name])


def test_the_next_constraint_is_served_by_a_new_process(vetting):
    with pytest.raises(InputError, match=r"ended its compiler|took longer"):
        vetting.check(StructuredOutput.json_schema(chain(5001)))
    vetting.check(StructuredOutput.choices(["after"]))
