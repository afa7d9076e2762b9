"""A registry or a part of it in the formats of other tools: DOT, GraphML, JSON, LaTeX."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

from assay.answers import data_of
from assay.errors import unknown_name
from assay.model.graphs import latex_names
from assay.model.graphs.latex import relation_sides, relation_to_latex
from assay.model.graphs.subgraph import Edge, Subgraph, edges_within
from assay.model.language.references import Reference
from assay.model.language.relations import Inequality, Relation
from assay.model.language.variables import Constant, Variable

if TYPE_CHECKING:
    from assay.model.declarations import Declarations, SimultaneousBlock

FORMAT: Final = 1
"""Version of the JSON export; raised when the meaning of a field changes."""


_BRIEF: Final = 400
"""Characters of a relation in a drawing."""


def to_data(source: Declarations | Subgraph) -> dict[str, Any]:
    """Nodes, relations with their encoded expressions, and edges, as plain data.

    Bounds, constants and literals are in base units; open bounds are null.
    """
    return {
        "format": FORMAT,
        "scopes": [{"name": n, "meaning": m} for n, m in _scopes(source).items()],
        "nodes": [_node_data(node) for node in _nodes(source)],
        "relations": [_relation_data(relation) for relation in source.relations.values()],
        "edges": [edge._asdict() for edge in _edges(source)],
        "blocks": [{"name": b.name, "members": list(b.members)} for b in _blocks(source)],
    }


def to_json(source: Declarations | Subgraph, *, indent: int | None = 2) -> str:
    """`to_data` as JSON text; the same declarations always give the same text."""
    return json.dumps(to_data(source), indent=indent, allow_nan=False) + "\n"


def to_dot(source: Declarations | Subgraph, *, clusters: bool = True) -> str:
    """A drawing for Graphviz: inputs are boxes, targets bold, constraints diamonds.

    Dashed edges belong to approximations. With `clusters` each scope has a frame. Long relations
    are cut short; `to_json` has them whole.
    """
    lines = ["digraph assay {", "  rankdir=LR;", "  node [fontsize=10, shape=ellipse];"]
    for scope, meaning in _scopes(source).items():
        inside = [f"{_dot_id(n.name)} {_dot_node(n)};" for n in _nodes(source) if n.scope == scope]
        if clusters and inside:
            lines += [f"  subgraph {_dot_id(f'cluster_{scope}')} {{"]
            lines += [f"    label={_dot_id(f'{scope}: {meaning}')};", *(f"    {i}" for i in inside)]
            lines += ["  }"]
        else:
            lines += [f"  {item}" for item in inside]
    texts = _brief_texts(source)
    for edge in _edges(source):
        relation = source.relations[edge.relation]
        style = "solid" if relation.is_identity else "dashed"
        facts = {"tooltip": texts[relation.name], "style": style}
        lines.append(f"  {_dot_id(edge.source)} -> {_dot_id(edge.target)} {_dot_facts(facts)};")
    for constraint in _constraints(source):
        own = _dot_id(_constraint_id(constraint))
        facts = {"label": constraint.text, "shape": "diamond", "tooltip": constraint.meaning}
        lines.append(f"  {own} {_dot_facts(facts)};")
        attached = {"dir": "none", "style": "dotted"}
        lines += [f"  {_dot_id(n)} -> {own} {_dot_facts(attached)};" for n in constraint.inputs]
    return "\n".join([*lines, "}", ""])


def to_graphml(source: Declarations | Subgraph) -> str:
    """The graph for tools that read GraphML; constraints are nodes with undirected edges.

    Long relations are cut short, since every edge repeats them; `to_json` has them whole.
    """
    from xml.etree import ElementTree

    root = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    for owner, keys in (("node", _NODE_KEYS), ("edge", _EDGE_KEYS)):
        for key, kind in keys.items():
            facts = {"id": f"{owner}.{key}", "for": owner, "attr.name": key, "attr.type": kind}
            ElementTree.SubElement(root, "key", facts)
    graph = ElementTree.SubElement(root, "graph", id="assay", edgedefault="directed")

    def add(owner: str, attributes: dict[str, str], facts: dict[str, Any]) -> None:
        element = ElementTree.SubElement(graph, owner, attributes)
        for key, value in facts.items():
            if value is not None:
                data = ElementTree.SubElement(element, "data", key=f"{owner}.{key}")
                data.text = str(value).lower() if isinstance(value, bool) else _xml_text(str(value))

    for node in _nodes(source):
        facts = _node_data(node)
        add("node", {"id": _xml_text(node.name)}, {key: facts.get(key) for key in _NODE_KEYS})
    for constraint in _constraints(source):
        own: dict[str, Any] = {
            **data_of(constraint, "name kind scope meaning library"),
        }  # fmt: skip
        add("node", {"id": _xml_text(_constraint_id(constraint))}, own)
    texts = _brief_texts(source)
    for edge in _edges(source):
        ends = {"source": _xml_text(edge.source), "target": _xml_text(edge.target)}
        relation = source.relations[edge.relation]
        facts = {"relation": relation.name, "kind": relation.kind, "text": texts[relation.name]}
        add("edge", ends, facts)
    for constraint in _constraints(source):
        facts = {"relation": constraint.name, "kind": constraint.kind, "text": constraint.text}
        for name in constraint.inputs:
            ends = {"source": _xml_text(name), "target": _xml_text(_constraint_id(constraint))}
            add("edge", {**ends, "directed": "false"}, facts)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def to_latex(
    source: Declarations | Subgraph,
    *,
    relation: str | None = None,
    scope: str | None = None,
    standalone: bool = False,
) -> str:
    """Relations as LaTeX: one for mathematics mode, or sections of a scope or of everything.

    Sections need the package amsmath; with `standalone` the text is a whole document.
    """
    registry = source.registry if isinstance(source, Subgraph) else source
    if relation is not None:
        return relation_to_latex(registry, registry.relation(relation))
    scopes = _scopes(source)
    if scope is not None:
        if scope not in scopes:
            raise unknown_name("scope", scope, scopes)
        scopes = {scope: scopes[scope]}
    sections = [_latex_section(source, registry, name, meaning) for name, meaning in scopes.items()]
    body = "\n".join(section for section in sections if section)
    return f"{_PREAMBLE}{body}\\end{{document}}\n" if standalone else body


_PREAMBLE: Final = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage{amsmath}
\allowdisplaybreaks
\begin{document}
"""

_NODE_KEYS: Final = {
    "name": "string", "symbol": "string", "unit": "string", "display": "string", "kind": "string",
    "scope": "string", "family": "string", "meaning": "string", "boundary": "string",
    "reference": "string", "value": "double", "target": "boolean", "library": "boolean",
}  # fmt: skip
_EDGE_KEYS: Final = {"relation": "string", "kind": "string", "text": "string"}

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _scopes(source: Declarations | Subgraph) -> dict[str, str]:
    if not isinstance(source, Subgraph):
        return source.scopes
    used = {v.scope for v in _nodes(source)} | {r.scope for r in source.relations.values()}
    return {name: meaning for name, meaning in source.registry.scopes.items() if name in used}


def _nodes(source: Declarations | Subgraph) -> list[Variable]:
    return [*source.constants.values(), *source.variables.values()]


def _edges(source: Declarations | Subgraph) -> list[Edge]:
    if isinstance(source, Subgraph):
        return source.edges
    return edges_within(source.relations.values(), {*source.variables, *source.constants})


def _constraints(source: Declarations | Subgraph) -> list[Inequality]:
    return [r for r in source.relations.values() if isinstance(r, Inequality)]


def _blocks(source: Declarations | Subgraph) -> list[SimultaneousBlock]:
    blocks = (source.registry if isinstance(source, Subgraph) else source).blocks.values()
    return [block for block in blocks if set(block.members) <= source.variables.keys()]


def _constraint_id(constraint: Inequality) -> str:
    # A constraint may be called like a variable; variable names hold no spaces.
    return f"constraint {constraint.name}"


def _node_data(node: Variable) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": node.name, "kind": node_kind(node), "symbol": node.symbol,
        "unit": node.unit.text, "display": node.display.text, "scope": node.scope,
        "family": node.family, "meaning": node.meaning, "reference": str(node.reference),
    }  # fmt: skip
    if isinstance(node, Constant):
        return {**facts, "value": node.value}
    ends = (node.lower, node.upper)
    return {
        **facts, "bounds": [end if math.isfinite(end) else None for end in ends],
        "boundary": node.boundary, "target": node.target, "library": node.library,
    }  # fmt: skip


def node_kind(node: Variable) -> str:
    """`constant`, `root` (an input) or `variable` (computed by a relation)."""
    if isinstance(node, Constant):
        return "constant"
    return "root" if node.is_root else "variable"


def _relation_data(relation: Relation) -> dict[str, Any]:
    reference: Reference = relation.reference
    return {
        "name": relation.name, "kind": relation.kind, "variable": relation.variable or None,
        "scope": relation.scope, "inputs": list(relation.inputs), "text": relation.text,
        "parts": {name: json.loads(text) for name, text in relation.parts.items()},
        "options": relation.options, "meaning": relation.meaning,
        "library": relation.library,
        "reference": {"kind": reference.kind, "work": reference.work, "where": reference.where},
    }  # fmt: skip


def _brief_texts(source: Declarations | Subgraph) -> dict[str, str]:
    """Every relation as text of bounded length."""
    texts = {name: relation.text for name, relation in source.relations.items()}
    return {
        name: text if len(text) <= _BRIEF else f"{text[: _BRIEF - 3]}..."
        for name, text in texts.items()
    }


def _dot_node(node: Variable) -> str:
    facts = {
        "label": f"{node.symbol}\n{node.name}\n[{node.display.text}]",
        "shape": {"constant": "plaintext", "root": "box", "variable": "ellipse"}[node_kind(node)],
        "tooltip": node.meaning,
    }
    if node.target:
        facts["style"] = "bold"
    return _dot_facts(facts)


def _dot_facts(facts: dict[str, str]) -> str:
    return "[" + ", ".join(f"{key}={_dot_id(value)}" for key, value in facts.items()) + "]"


def _dot_id(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _xml_text(text: str) -> str:
    """The text with characters that XML forbids replaced by U+FFFD."""
    return _NOT_XML.sub("\ufffd", text)


def _latex_section(
    source: Declarations | Subgraph, registry: Declarations, scope: str, meaning: str
) -> str:
    relations = [r for r in source.relations.values() if r.scope == scope]
    names = dict.fromkeys(n.name for n in _nodes(source) if n.scope == scope)
    for relation in relations:
        # A scope may define a variable of an earlier one.
        if relation.variable:
            names[relation.variable] = None
        for part in relation.parts:
            names.update(dict.fromkeys(relation.part_variables(part)))
    listed = [registry.variable(name) for name in names if name in registry.units]
    if not listed:
        return ""
    symbols = latex_names.symbols(listed)
    lines = [rf"\section*{{{latex_names.escape(f'{scope}: {meaning}')}}}"]
    if relations:
        rows = []
        for relation in relations:
            bound = {n: latex_names.symbol(n.rpartition(".")[2]) for n in relation.own_symbols}
            left, right = relation_sides(relation, {**bound, **symbols})
            rows.append(f"  {left} &{right}")
        lines += [r"\begin{align*}", " \\\\\n".join(rows), r"\end{align*}"]
    lines.append(r"\begin{description}")
    for variable in listed:
        unit = latex_names.unit(variable.unit.text)
        words = latex_names.escape(variable.meaning)
        lines.append(rf"  \item[${symbols[variable.name]}$] {words} [${unit}$]")
    return "\n".join([*lines, r"\end{description}", ""])
