"""Declarations as plain data, by name: as scopes declare them, or as a stored registry holds them.

A stored registry is text: a line of JSON with the names of everything, then one line for each
variable, relation and shared formula. A relation's expressions follow its facts after tabs, as JSON
of their own. Reading it splits lines; a line is decoded when its declaration is first used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from assay.errors import DeclarationError
from assay.model.language.encoding import read_entries, variables_of_entries
from assay.model.tapes.formulas import Formula, shared_formulas


class RelationRecord(NamedTuple):
    """What a registry knows of a relation before it is used."""

    kind: str
    variable: str
    position: int
    source: Any
    formula: Formula | None = None


class DeclarationRecords(NamedTuple):
    """Everything declared, by name; `facts` reads the facts of a source, `to_data` of all."""

    scopes: dict[str, str]
    variables: dict[str, Any]
    constants: dict[str, Any]
    relations: dict[str, RelationRecord]
    blocks: list[Mapping[str, Any]]
    targets: tuple[str, ...]
    facts: Callable[[Any], Mapping[str, Any]]
    to_data: Callable[[], Mapping[str, Any]]


def from_data(data: Mapping[str, Any]) -> DeclarationRecords:
    """The records of plain data; a name that is declared twice is refused."""
    variables: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    relations: dict[str, RelationRecord] = {}
    for scope in data["scopes"]:
        for facts in scope["variables"]:
            name = facts["name"]
            if name in variables or name in constants:
                raise DeclarationError(f"variable {name} is declared twice")
            (constants if "value" in facts else variables)[name] = facts
        for facts in scope["relations"]:
            name = facts["name"]
            if name in relations:
                raise DeclarationError(
                    f"relation {name} is declared twice",
                    "give variants of one variable names of their own",
                )
            relations[name] = RelationRecord(
                facts["kind"], facts["variable"], len(relations), facts
            )
    return DeclarationRecords(
        {scope["name"]: scope["meaning"] for scope in data["scopes"]},
        variables,
        constants,
        relations,
        [facts for scope in data["scopes"] for facts in scope["blocks"]],
        tuple(name for name, facts in variables.items() if facts["target"]),
        lambda facts: facts,
        lambda: data,
    )


def to_bytes(data: Mapping[str, Any], key: str) -> bytes:
    """Plain data and its key in the stored form."""
    scopes = data["scopes"]
    variables = [facts for scope in scopes for facts in scope["variables"]]
    relations = [facts for scope in scopes for facts in scope["relations"]]
    formulas, numbers = shared_formulas(relations)
    index = {
        "key": key,
        "scopes": [
            [s["name"], s["meaning"], len(s["variables"]), len(s["relations"]), s["blocks"]]
            for s in scopes
        ],
        "variables": [facts["name"] for facts in variables],
        "constants": [facts["name"] for facts in variables if "value" in facts],
        "targets": [facts["name"] for facts in variables if facts.get("target")],
        "relations": [
            [facts["name"], facts["kind"], facts["variable"], numbers.get(facts["name"])]
            for facts in relations
        ],
    }
    lines = [json.dumps(item, separators=(",", ":")) for item in (index, *variables)]
    lines += ["\t".join(_relation_texts(facts)) for facts in relations]
    return "\n".join([*lines, *formulas]).encode()


_BINDING = ("iterative", "differential")
"""Kinds of relations that have symbols of their own beside their inputs."""


def _relation_texts(facts: Mapping[str, Any]) -> Iterator[str]:
    parts = facts["parts"]
    stored = {**facts, "parts": list(parts)}
    if facts["kind"] not in _BINDING:
        # With its inputs known, an expression that is not evaluated is not decoded.
        names = {part: variables_of_entries(read_entries(text)) for part, text in parts.items()}
        stored["valid_inputs"] = names.pop("valid", ())
        stored["inputs"] = list(dict.fromkeys(name for part in names.values() for name in part))
    yield json.dumps(stored, separators=(",", ":"))
    yield from parts.values()


def from_bytes(content: bytes) -> tuple[DeclarationRecords, str]:
    """The records and the key of a stored registry."""
    first, *lines = content.decode().split("\n")
    index = json.loads(first)
    names = index["variables"]
    sources = dict(zip(names, lines, strict=False))
    constants = {name: sources.pop(name) for name in index["constants"]}
    last = len(names) + len(index["relations"])
    formulas = [Formula(stored) for stored in lines[last:]]
    relations = {
        name: RelationRecord(
            kind, variable, position, line, None if number is None else formulas[number]
        )
        for position, ((name, kind, variable, number), line) in enumerate(
            zip(index["relations"], lines[len(names) : last], strict=True)
        )
    }
    records = DeclarationRecords(
        {scope[0]: scope[1] for scope in index["scopes"]},
        sources,
        constants,
        relations,
        [facts for scope in index["scopes"] for facts in scope[4]],
        tuple(index["targets"]),
        _read_line,
        lambda: _all_data(index["scopes"], lines[: len(names)], lines[len(names) : last]),
    )
    return records, index["key"]


def _read_line(line: str) -> Mapping[str, Any]:
    first, *texts = line.split("\t")
    facts: dict[str, Any] = json.loads(first)
    if texts:
        facts["parts"] = dict(zip(facts["parts"], texts, strict=True))
    return facts


def _all_data(
    scopes: Sequence[Sequence[Any]], of_variables: Sequence[str], of_relations: Sequence[str]
) -> Mapping[str, Any]:
    variables, relations = iter(of_variables), iter(of_relations)
    return {
        "scopes": [
            {
                "name": name,
                "meaning": meaning,
                "variables": [_read_line(next(variables)) for _ in range(n_variables)],
                "relations": [_declared(next(relations)) for _ in range(n_relations)],
                "blocks": blocks,
            }
            for name, meaning, n_variables, n_relations, blocks in scopes
        ]
    }


def _declared(line: str) -> Mapping[str, Any]:
    added = ("inputs", "valid_inputs")
    return {name: fact for name, fact in _read_line(line).items() if name not in added}
