"""Exports: read back by an independent reader where there is one, else by a small one here."""

import json
import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import assume, given, strategies as st

from assay import stack
from assay.errors import UnknownNameError
from assay.model import (
    ANY_SIGN,
    Expression,
    Registry,
    Scope,
    Symbol,
    by_definition,
    ceil,
    equal,
    exp,
    log2,
    maximum,
    minimum,
    number,
    sqrt,
    where,
)
from assay.model.graphs.export import to_data, to_dot, to_graphml, to_json, to_latex
from assay.model.graphs.latex import expression_to_latex
from assay.model.graphs.latex_names import symbol, unit
from assay.model.language.encoding import decode
from assay.model.language.expression import Number, evaluate, evaluate_nodes

SPACE = "{http://graphml.graphdrawing.org/xmlns}"
a, b, c, n = (Symbol(name) for name in "abcn")
PLAIN = {name: name for name in "abcnx"}


def small() -> Registry:
    """One relation of every kind, with names and meanings that need escaping."""
    scope = Scope("s", 'Quotes " and \\ and & < 5 %')
    k = scope.constant("k", "k_B", "1.5 J/K", "a constant", reference=by_definition())
    t = scope.variable("t", "T", "K", "temperature < 5 & more", boundary="scenario", display="degC")
    e = scope.variable("e", "E_th", "J", 'says "hi"\nand more\x07', equals=k * t, target=True)
    u = scope.variable("u", "u", "J", "approximated", bounds=ANY_SIGN)
    scope.approximation(u, e / 2, name="u_rule", valid=t > 300 * number("1 K"))
    p = scope.variable("p", "p", "J", "by cases")
    scope.piecewise(p, [(t > number("1 K"), e)], otherwise=2 * e)
    i = scope.variable("i", "i", "J", "iterated")
    scope.iterative(i, (i + e) / 2, start=e)
    scope.variable("f", "T", "K", "shares its symbol", equals=2 * t)
    end = scope.variable("end", "t_end", "s", "duration", boundary="scenario")
    q = scope.variable("q", "Q", "J", "decays")
    rate = scope.variable("rate", "lambda", "1/s", "decay rate", boundary="scenario")
    time = Symbol("s.tau")
    scope.differential(
        q, -rate * q, time=time, time_like=end, initial=e, start=number("0 s"), end=end
    )
    d = scope.variable("d", "d", "J", "drawn")
    scope.stochastic(d, "normal", e, e / 10)
    scope.inequality("cold", (t < number("400 K")) & (e <= 9 * e), "stays cold")
    return Registry.from_scopes([scope])


# DOT


def dot_statements(text: str) -> list[list[str]]:
    """Tokens of every statement of a DOT text; raises on anything out of place."""
    token = re.compile(r'\s*("(?:[^"\\]|\\.)*"|->|[A-Za-z_]\w*|\d+|[{}\[\]=;,])')
    position, depth = 0, 0
    statements: list[list[str]] = [[]]
    text = text.rstrip()
    while position < len(text):
        match = token.match(text, position)
        assert match, f"unreadable at {text[position : position + 40]!r}"
        position = match.end()
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(match[1], 0)
        assert depth >= 0
        if match[1] in ";{}":
            statements.append([])
        else:
            statements[-1].append(match[1])
    assert depth == 0
    return [statement for statement in statements if statement]


def dot_text(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], quoted[1:-1])


@pytest.mark.parametrize("clusters", [True, False])
def test_dot_holds_every_variable_edge_and_constraint(clusters: bool) -> None:
    registry = small()
    statements = dot_statements(to_dot(registry, clusters=clusters))
    assert statements[0] == ["digraph", "assay"]
    edges = [(dot_text(s[0]), dot_text(s[2]), s[3:]) for s in statements if s[1:2] == ["->"]]
    nodes = {dot_text(s[0]): s for s in statements if s[0][0] == '"' and s[1] == "["}
    assert set(nodes) == {*registry.variables, *registry.constants, "constraint s.cold"}
    computed = {(x, y) for x, y, facts in edges if '"dotted"' not in facts}
    assert ("s.t", "s.e") in computed
    assert len(computed) == sum(len(r.inputs) for r in registry.equations.values())
    dashed = {(x, y) for x, y, facts in edges if '"dashed"' in facts}
    assert dashed == {("s.e", "s.u")}
    constrained = {(x, y) for x, y, facts in edges if '"dotted"' in facts}
    assert constrained == {("s.t", "constraint s.cold"), ("s.e", "constraint s.cold")}
    label = nodes["s.e"][nodes["s.e"].index("tooltip") + 2]
    assert dot_text(label) == registry.variables["s.e"].meaning
    framed = [s for s in statements if s[0] == "subgraph"]
    assert bool(framed) is clusters


# GraphML


def test_graphml_is_xml_with_typed_attributes() -> None:
    registry = small()
    root = ElementTree.fromstring(to_graphml(registry))
    keys = {key.get("id"): key for key in root.iter(f"{SPACE}key")}
    nodes = {
        node.get("id"): {d.get("key"): d.text for d in node} for node in root.iter(f"{SPACE}node")
    }
    assert set(nodes) == {*registry.variables, *registry.constants, "constraint s.cold"}
    assert all(key in keys for facts in nodes.values() for key in facts)
    assert nodes["s.t"]["node.unit"] == "K"
    assert nodes["s.t"]["node.display"] == "degC"
    assert nodes["s.t"]["node.kind"] == "root"
    assert nodes["s.t"]["node.scope"] == "s"
    assert nodes["s.t"]["node.meaning"] == "temperature < 5 & more"
    assert nodes["s.e"]["node.kind"] == "variable"
    assert nodes["s.e"]["node.target"] == "true"
    # A control character cannot stand in XML.
    assert nodes["s.e"]["node.meaning"] == 'says "hi"\nand more\ufffd'
    assert float(nodes["s.k"]["node.value"] or "nan") == 1.5
    edges = list(root.iter(f"{SPACE}edge"))
    assert all(edge.get(end) in nodes for edge in edges for end in ("source", "target"))
    directed = [e for e in edges if e.get("directed") != "false"]
    assert len(directed) == len(to_data(registry)["edges"])
    assert {e.get("target") for e in edges if e not in directed} == {"constraint s.cold"}


# JSON


def test_json_is_stable_and_holds_the_encoded_expressions() -> None:
    registry = small()
    text = to_json(registry)
    assert text == to_json(Registry(json.loads(json.dumps(registry.to_data()))))
    data = json.loads(text)
    assert list(data) == ["format", "scopes", "nodes", "relations", "edges", "blocks"]
    assert {"source": "s.t", "target": "s.e", "relation": "s.e"} in data["edges"]
    (energy,) = (r for r in data["relations"] if r["name"] == "s.e")
    assert energy["text"] == "s.e = s.k * s.t"
    point = {"s.k": 1.5, "s.t": 300.0}
    assert evaluate(decode(json.dumps(energy["parts"]["expression"])), point) == 450.0
    (temperature,) = (node for node in data["nodes"] if node["name"] == "s.t")
    assert temperature["bounds"] == [0.0, None]
    (cold,) = (r for r in data["relations"] if r["kind"] == "inequality")
    assert cold["variable"] is None


def test_exports_of_a_subgraph_stay_inside_it() -> None:
    part = stack.registry().graph.subgraph("training.step_time", "up", depth=1)
    data = to_data(part)
    names = {node["name"] for node in data["nodes"]}
    own = {"compute_time", "exposed_communication_time", "step_time"}
    waits = {"routing.input.time", "routing.offload.time"}
    achieved = {
        "training.achieved_share",
        "training.flops_per_step",
        "training.gpus",
        "gpu.peak_flops",
    }
    assert names == {f"training.{name}" for name in own} | waits | achieved
    assert {scope["name"] for scope in data["scopes"]} == {"training", "routing", "gpu"}
    assert {edge["target"] for edge in data["edges"]} == {"training.step_time"}
    assert "econ" not in to_dot(part)
    # A step that waits for its input is an alternative, and one at a published share of the peak.
    alternatives = {"routing.fed_step", "training.by_achieved_share"}
    assert {r["name"] for r in data["relations"]} == {"training.step_time", *alternatives}


def test_blocks_are_listed_where_all_their_members_are() -> None:
    scope = Scope("s", "two that define each other")
    x = scope.variable("x", "x", "1", "one")
    y = scope.variable("y", "y", "1", "other", equals=x / 2)
    scope.equation(x, y + 1)
    scope.simultaneous("pair", [x, y])
    registry = Registry.from_scopes([scope])
    assert to_data(registry)["blocks"] == [{"name": "s.pair", "members": ["s.x", "s.y"]}]
    assert to_data(registry.graph.subgraph("s.x", depth=0))["blocks"] == []


# LaTeX


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t", "t"),
        ("t_step", r"t_{\mathrm{step}}"),
        ("eta_P", r"\eta_{P}"),
        ("k_B", "k_{B}"),
        ("n_2", "n_{2}"),
        ("Delta_T", r"\Delta_{T}"),
        ("x_max_i", r"x_{\mathrm{max},i}"),
        ("sigma_mu", r"\sigma_{\mu}"),
        ("PUE", r"\mathrm{PUE}"),
        ("r'", "r'"),
        ("r'_w", "r'_{w}"),
        (r"\dot{m}", r"\dot{m}"),
        (r"T^{\star}", r"{T^{\star}}"),
        ("N%", r"\text{N\%}"),
        ("", r"\text{?}"),
        ("a{b", r"\text{a\{b}"),
    ],
)
def test_symbols(text: str, expected: str) -> None:
    assert symbol(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "1"),
        ("GB/s", r"\mathrm{GB}/\mathrm{s}"),
        ("USD/(GPU*h)", r"\mathrm{USD}/(\mathrm{GPU}\,\mathrm{h})"),
        ("m^2*K^-1", r"\mathrm{m}^{2}\,\mathrm{K}^{-1}"),
        ("V^(1/2)", r"\mathrm{V}^{1/2}"),
        ("kohm", r"\mathrm{k}\Omega"),
        ("us", r"\mu\mathrm{s}"),
        ("%", r"\%"),
        ("$/h", r"\$/\mathrm{h}"),
        ("degC", r"{}^{\circ}\mathrm{C}"),
    ],
)
def test_units(text: str, expected: str) -> None:
    assert unit(text) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (a / b, r"\frac{a}{b}"),
        (a * (b + c), r"a\,\left(b + c\right)"),
        (a - (b - c), r"a - \left(b - c\right)"),
        (a + (b - c), "a + b - c"),
        (a + -b, r"a + \left(-b\right)"),
        (-a + b, "-a + b"),
        (a + (-b + c), r"a + \left(-b + c\right)"),
        (-(a + b), r"-\left(a + b\right)"),
        (a * -b, r"a\,\left(-b\right)"),
        ((a / b) ** 2, r"\left(\frac{a}{b}\right)^{2}"),
        ((a**b) ** c, r"\left(a^{b}\right)^{c}"),
        (a ** (b + c), "a^{b + c}"),
        (a * 2, r"a \cdot 2"),
        (2 * (a / b), r"2 \cdot \frac{a}{b}"),
        (1.5e15 * a, r"1.5 \times 10^{15}\,a"),
        (number("6 FLOP/token") * n, r"\left(6\,\mathrm{FLOP}/\mathrm{token}\right)\,n"),
        (a + number("5 us"), r"a + 5\,\mu\mathrm{s}"),
        (sqrt(a / b), r"\sqrt{\frac{a}{b}}"),
        (exp(-a), r"\exp\left(-a\right)"),
        (log2(a), r"\log_{2}\left(a\right)"),
        (abs(a - b), r"\left|a - b\right|"),
        (ceil(a), r"\left\lceil a \right\rceil"),
        (minimum(a, b, c), r"\min\left(a, b, c\right)"),
        (minimum(a, maximum(b, c)), r"\min\left(a, \max\left(b, c\right)\right)"),
        (a % b, r"a \bmod b"),
        ((a < b) & ~(b >= c), r"a < b \land \lnot \left(b \ge c\right)"),
        ((a < b) & ((b < c) | equal(a, c)), r"a < b \land \left(b < c \lor a = c\right)"),
        (
            where(a < b, a, where(b < c, b, 0)),
            r"\begin{cases} a & \text{if } a < b \\ b & \text{if } b < c \\ "
            r"0 & \text{otherwise} \end{cases}",
        ),
        (
            1 + where(a < b, a, b),
            r"1 + \left(\begin{cases} a & \text{if } a < b \\ b & \text{otherwise} "
            r"\end{cases}\right)",
        ),
    ],
)
def test_expressions(expression: Expression, expected: str) -> None:
    assert expression_to_latex(expression, PLAIN) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("s.e", r"E_{\mathrm{th}} = k_{B}\,T"),
        (
            "s.u_rule",
            r"u \approx \frac{E_{\mathrm{th}}}{2} \quad \text{where } "
            r"T > 300\,\left(1\,\mathrm{K}\right)",
        ),
        (
            "s.p",
            r"p = \begin{cases} E_{\mathrm{th}} & \text{if } T > 1\,\mathrm{K} \\ "
            r"2\,E_{\mathrm{th}} & \text{otherwise} \end{cases}",
        ),
        (
            "s.i",
            r"i \leftarrow \frac{i + E_{\mathrm{th}}}{2} \quad \text{from } i = E_{\mathrm{th}}",
        ),
        # Both are called T, so each carries its name.
        ("s.f", r"T_{\mathrm{s.f}} = 2\,T_{\mathrm{s.t}}"),
        (
            "s.q",
            r"\frac{\mathrm{d} Q}{\mathrm{d} \tau} = \left(-\lambda\right)\,Q \quad \text{from } "
            r"Q = E_{\mathrm{th}} \text{ at } \tau = 0\,\mathrm{s} "
            r"\text{ to } \tau = t_{\mathrm{end}}",
        ),
        (
            "s.d",
            r"d \sim \operatorname{normal}\left(E_{\mathrm{th}}, \frac{E_{\mathrm{th}}}{10}\right)",
        ),
        ("s.cold", r"T < 400\,\mathrm{K} \land E_{\mathrm{th}} \le 9\,E_{\mathrm{th}}"),
    ],
)
def test_relations_of_every_kind(name: str, expected: str) -> None:
    assert to_latex(small(), relation=name) == expected


def check_balance(text: str) -> None:
    bare = re.sub(r"\\[\\{}]", "", text)
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    assert len(re.findall(r"\\left\b", bare)) == len(re.findall(r"\\right\b", bare))
    opened: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{([a-z*]+)\}", bare):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert opened == []
    assert bare.count("$") % 2 == bare.count(r"\$") % 2


@pytest.mark.parametrize("registry", [small(), stack.registry()], ids=["small", "stack"])
def test_documents_have_balanced_braces(registry: Registry) -> None:
    text = to_latex(registry, standalone=True)
    check_balance(text)
    assert text.startswith(r"\documentclass{article}")
    assert text.endswith("\\end{document}\n")
    assert text.count(r"\section*") == len(registry.scopes)
    # One line per relation, joined by line ends outside of cases.
    rows = re.sub(r"\\begin\{cases\}.*?\\end\{cases\}", "", text).count("\\\\\n")
    used = {relation.scope for relation in registry.relations.values()}
    assert rows == len(registry.relations) - len(used)


def test_a_section_for_one_scope() -> None:
    text = to_latex(stack.registry(), scope="training")
    check_balance(text)
    assert text.count(r"\section*") == 1
    assert r"t_{\mathrm{step}} &= t_{\mathrm{comp}} + t_{\mathrm{comm}}" in text
    assert r"\item[$t_{\mathrm{step}}$] time of one optimizer step [$\mathrm{s}$]" in text


def test_unknown_scopes_and_relations_get_a_suggestion() -> None:
    with pytest.raises(UnknownNameError) as error:
        to_latex(stack.registry(), scope="trainin")
    assert error.value.hint == "did you mean training?"
    with pytest.raises(UnknownNameError):
        to_latex(stack.registry(), relation="training.step")


class Reader:
    """Reads arithmetic in LaTeX as people do, to see what the printed parentheses mean."""

    TOKEN = re.compile(
        r"\s*(\\left\(|\\right\)|\\frac|\\sqrt|\\cdot|\\times|\\,|[\d.]+|[a-z]|[-+^{}])"
    )

    def __init__(self, text: str, values: dict[str, float]) -> None:
        self.tokens: list[str] = self.TOKEN.findall(text)
        assert "".join(self.tokens) == text.replace(" ", "")
        self.values = values

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def take(self, wanted: str = "") -> str:
        token = self.tokens.pop(0)
        assert not wanted or token == wanted
        return token

    def sum(self) -> float:
        result = self.signed()
        while self.peek() in ("+", "-"):
            result = result + self.product() if self.take() == "+" else result - self.product()
        return result

    def signed(self) -> float:
        if self.peek() == "-":
            self.take()
            return -self.product()
        return self.product()

    def product(self) -> float:
        result = self.power()
        while self.peek() in (r"\,", r"\cdot", r"\times"):
            self.take()
            result *= self.power()
        return result

    def power(self) -> float:
        base = self.atom()
        if self.peek() == "^":
            self.take()
            return math.pow(base, self.braced())
        return base

    def braced(self) -> float:
        self.take("{")
        value = self.sum()
        self.take("}")
        return value

    def atom(self) -> float:
        token = self.take()
        if token == r"\left(":
            value = self.sum()
            self.take(r"\right)")
            return value
        if token == r"\frac":
            above = self.braced()
            return above / self.braced()
        if token == r"\sqrt":
            return math.sqrt(self.braced())
        return self.values[token] if token in self.values else float(token)


def arithmetic() -> st.SearchStrategy[Expression]:
    leaves: st.SearchStrategy[Expression] = st.one_of(
        st.sampled_from([a, b, c]), st.sampled_from([Number(v) for v in (2.0, -3.0, 0.5, 1.5e-5)])
    )

    def extend(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        return st.one_of(
            st.builds(lambda x, y: x + y, inner, inner),
            st.builds(lambda x, y: x - y, inner, inner),
            st.builds(lambda x, y: x * y, inner, inner),
            st.builds(lambda x, y: x / y, inner, inner),
            st.builds(lambda x: -x, inner),
            st.builds(lambda x, y: x**y, inner, st.sampled_from([Number(2.0), Number(-1.0)])),
            st.builds(lambda x: sqrt(x * x), inner),
        )

    return st.recursive(leaves, extend, max_leaves=12)


@given(arithmetic())
def test_printed_expression_evaluates_to_the_same_value(expression: Expression) -> None:
    values = {"a": 1.75, "b": 0.625, "c": 3.0}
    sizes = [abs(value) for value in evaluate_nodes(expression, values).values()]
    assume(all(map(math.isfinite, sizes)))
    text = expression_to_latex(expression, PLAIN)
    check_balance(text)
    reader = Reader(text, values)
    # Sums may be read in another order than they are computed in.
    expected = pytest.approx(evaluate(expression, values), rel=1e-9, abs=1e-12 * max(sizes))
    assert reader.sum() == expected
    assert reader.tokens == []
