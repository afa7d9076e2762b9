"""The glossary points at what exists: every file, symbol, Python name and command in it."""

import importlib
import re
from pathlib import Path

import pytest

from assay.cli.app import COMMANDS
from assay.cli.configuration import DEFAULT_MEMBERS

GLOSSARY = Path("docs/reference/glossary.md")
CODE = re.compile(r"`([^`]+)`")
NOT_YET = "not yet"


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the tables in the section below a heading."""
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    (body,) = [part for part in section if part.startswith(heading + "\n")]
    lines = [line for line in body.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if not set("".join(row)) <= set("-: ")]


@pytest.fixture(scope="module")
def glossary(root: Path) -> str:
    return (root / GLOSSARY).read_text("utf-8")


def test_every_term_names_a_file_and_a_symbol_defined_there(root: Path, glossary: str) -> None:
    header, *terms = rows(glossary, "Terms")
    assert header == ["term", "meaning", "file", "symbol"]
    assert len(terms) > 80
    missing = []
    for term, meaning, file, symbol in terms:
        (path,), (name,) = CODE.findall(file), CODE.findall(symbol)
        assert meaning, term
        text = (root / path).read_text("utf-8") if (root / path).is_file() else ""
        if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text):
            missing.append(f"{term}: {path} has no {name}")
    assert missing == []


def test_terms_are_listed_once_in_alphabetical_order(glossary: str) -> None:
    terms = [row[0].lower() for row in rows(glossary, "Terms")[1:]]
    assert terms == sorted(set(terms))


@pytest.mark.parametrize(
    "term",
    [
        "batch scheduler",
        "block manager",
        "model runner",
        "CUDA graph capture",
        "sampler",
        "decode attention",
        "GEMV",
        "quantized GEMM",
        "memory pool",
        "tape",
        "decode time",
    ],
)
def test_one_search_finds_the_main_parts(glossary: str, term: str) -> None:
    found = [row for row in rows(glossary, "Terms")[1:] if row[0].lower() == term.lower()]
    assert len(found) == 1


def test_names_of_other_projects_map_to_names_that_exist(root: Path, glossary: str) -> None:
    header, *names = rows(glossary, "Coming from another project")
    assert header == ["project", "their name", "here"]
    assert {row[0] for row in names} == {"vLLM", "llama.cpp", "CuPy", "PyGPUkit", "GITM"}
    missing = []
    for project, theirs, ours in names:
        if ours.startswith(NOT_YET):
            continue
        spans = CODE.findall(ours)
        assert spans, f"{project} {theirs}: neither a name nor '{NOT_YET}'"
        missing += [f"{theirs}: {span}" for span in spans if not exists(root, span)]
    assert missing == []


def exists(root: Path, span: str) -> bool:
    """Whether a span of code is a command, an environment variable, a file or a Python name."""
    if span.startswith("assay "):
        words = span.split()[1:]
        is_group = bool(words) and words[0] in DEFAULT_MEMBERS
        return is_group or any(words[: len(name.split())] == name.split() for name in COMMANDS)
    if re.fullmatch(r"ASSAY_[A-Z]+", span):
        return any(span in path.read_text("utf-8") for path in (root / "python").rglob("*.py"))
    if "/" in span:
        return (root / span).exists()
    parts = re.sub(r"\(.*\)$", "", span).split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for name in parts[cut:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False
