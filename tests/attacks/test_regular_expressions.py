"""No regular expression of the package takes more than linear time, whatever it is given.

Every pattern in the sources is found by reading them, and timed as it is used, on texts that repeat
what it could match in several ways.
"""

import ast
import importlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2] / "python"
METHODS = ("match", "fullmatch", "search", "findall", "finditer", "sub", "split")

SHORT = 2_000
LONG = 4 * SHORT
SLOW_SECONDS = 0.02
"""Faster is linear at this length: quadratic time would be 6e7 steps."""

PUMPS = [
    " ", "0", "1", "a", "A", "_", ".", "(", ")", "/", "*", ":", "-", "x", "<", "\n", "\\",
    "1 ", "1.", "a1", "a ", "a.", "a/", "1_", "()", "( ", "(a", "/*", "//", "*/", "..", "to ", " to",
    "1:", "1e", "x1", "1x", "1 x ", "Gb/s", "1Gb/s ", "1 Gb/s per nod", "kv", "fp8", "fp8 kv",
    "fp8-", "1-way ", "-way", "__global__ ", "void ", "__global__ void ", "void f(", "f(a)",
    "__global__ void f(a)", "blk.1.", "blk.", "arxiv.org/", "arxiv.org/a/", "march ", "2024 ",
    "20.0", "zero", "zero-", "vllm ", "vllm 1.", "<0x", "_c1", "silicon_concurrency=1", "extra ==",
    "instruct-", "-instruct", "sxm5 ", "80g", "80gb ", "attn.", ".attn.masked_", "rope", "1k", "$",
    "normal(", "normal(1", "normal (", "training_days_1", "20-01", "aaaa ", "W^", "W*", "W/(",
]  # fmt: skip
"""What is repeated: each alone, after a few beginnings, and before an end that fits nothing."""
BEGINNINGS = ("", "1", "1x", "a(")
ENDS = ("\x00", "x")


class Use(NamedTuple):
    """A pattern and how it is used."""

    where: str
    pattern: "re.Pattern[Any]"
    method: str


def uses() -> Iterator[Use]:
    for path in sorted(ROOT.rglob("*.py")):
        source = path.read_text()
        if not re.search(r"^\s*import re$", source, re.MULTILINE):
            assert "from re import" not in source
            continue
        yield from _uses_of(path, source)


def _uses_of(path: Path, source: str) -> Iterator[Use]:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    tree = ast.parse(source)
    for call in _calls(tree):
        if call.method not in ("compile", "escape"):
            text = call.pattern
            assert isinstance(text, ast.Constant), f"{name}: compile {ast.unparse(text)} once"
            yield Use(f"{name}: {text.value}", re.compile(text.value), call.method)
    compiled = sum(call.method == "compile" for call in _calls(tree))
    assigned = [node for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    named = sum(call.method == "compile" for node in assigned for call in _calls(node))
    assert named == compiled, f"{name}: compile patterns at the top, under a name"
    if compiled:
        module = importlib.import_module(name)
        for variable, value in vars(module).items():
            if patterns := list(_patterns(value)):
                used = _methods(variable, source)
                assert used, f"{name}.{variable} is not used"
                for pattern in patterns:
                    for method in sorted(used):
                        yield Use(f"{name}.{variable}", pattern, method)


class Call(NamedTuple):
    """A call of the module `re`."""

    method: str
    pattern: ast.expr


def _calls(tree: ast.AST) -> Iterator[Call]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
        ):
            yield Call(node.func.attr, node.args[0])


def _patterns(value: Any) -> Iterator["re.Pattern[Any]"]:
    """The patterns of a variable: itself, or those in a mapping or sequence."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _patterns(one)


def _methods(variable: str, source: str) -> set[str]:
    """The methods that are called on the patterns of a variable, or in a loop over them."""
    methods = "|".join(METHODS)
    used = set(re.findall(rf"\b{variable}(?:\[\w+\])?\.({methods})\(", source))
    # A loop or a comprehension, whose variable is called within a few lines on either side.
    for loop in re.finditer(rf"for ([\w, ]+) in {variable}\b", source):
        near = source[max(0, loop.start() - 200) : loop.end() + 200]
        for name in re.findall(r"\w+", loop[1]):
            used.update(re.findall(rf"\b{name}\.({methods})\(", near))
    return used


USES = sorted(set(uses()), key=lambda use: (use.where, use.method, str(use.pattern.pattern)))


def seconds(use: Use, text: str) -> float:
    method = getattr(use.pattern, use.method)
    given = text if isinstance(use.pattern.pattern, str) else text.encode()
    arguments = (" ", given) if use.method == "sub" else (given,)
    start = time.process_time()
    result = method(*arguments)
    if use.method == "finditer":
        list(result)
    return time.process_time() - start


def test_patterns_are_found() -> None:
    assert len(USES) > 35


@pytest.mark.parametrize("use", USES, ids=lambda use: f"{use.where[:60]} {use.method}")
def test_time_is_linear(use: Use) -> None:
    for pump in PUMPS:
        for beginning in BEGINNINGS:
            for end in ENDS:
                text = beginning + pump * (SHORT // len(pump)) + end
                # A short text decides in nearly every case, and the rest are measured.
                if seconds(use, text) * 4 < SLOW_SECONDS / 4:
                    continue
                assert_linear(use, beginning, pump, end)


def assert_linear(use: Use, beginning: str, pump: str, end: str) -> None:
    texts = [beginning + pump * (size // len(pump)) + end for size in (SHORT, LONG)]
    for _ in range(3):
        short, long = (seconds(use, text) for text in texts)
        # Four times the text: four times the time if linear, sixteen times if quadratic.
        if long < SLOW_SECONDS or long <= 8 * short:
            return
    raise AssertionError(f"{use.where}: {pump!r}: {short:.3g} s, four times as long: {long:.3g} s")


def test_quadratic_pattern_is_noticed() -> None:
    quadratic = Use("here", re.compile(r"(\d+)-way"), "search")
    with pytest.raises(AssertionError, match="four times as long"):
        assert_linear(quadratic, "", "1", "")
