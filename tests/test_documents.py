"""Documents name only files, symbols, settings and commands that exist, and list all of them."""

import importlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from assay.bench import SUITES
from assay.cli.app import COMMANDS, program
from assay.engine.core.knobs import KNOBS

FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
SPAN = re.compile(r"`([^`\n]+)`")
SOURCE_FILE = re.compile(r"[\w./-]+\.(?:py|pyi|rs|cu|cuh|sh|toml)")
DOTTED = re.compile(r"assay(?:\.\w+)+")
SETTING = re.compile(r"\bASSAY_[A-Z0-9_]+\b")
COMMAND = re.compile(r"^\$? ?(?:\.venv/bin/|python -m )?(assay [a-z][^#\n]*)", re.MULTILINE)

UNTRACKED = {"assay-bundle/install.sh": "made by scripts/bundle.py"}
"""Files that are named and are not tracked, with the reason."""


@pytest.fixture(scope="module")
def tracked(root: Path) -> list[str]:
    listing = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True)
    if listing.returncode != 0:
        pytest.skip("not a git checkout: no list of tracked files")
    return listing.stdout.split()


@pytest.fixture(scope="module")
def documents(root: Path, tracked: list[str]) -> dict[str, str]:
    return {
        name: (root / name).read_text("utf-8")
        for name in tracked
        if name.endswith(".md") and (root / name).is_file()
    }


def spans(documents: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Every inline code span, with its document."""
    for name, text in documents.items():
        for span in SPAN.findall(FENCE.sub("", text)):
            yield name, span


def commands(documents: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Every `assay` command line in a code block, as words."""
    for name, text in documents.items():
        for block in FENCE.findall(text):
            for line in COMMAND.findall(block.replace("\\\n", " ")):
                yield name, shlex.split(line)[1:]


def test_source_files_exist(documents: dict[str, str], tracked: list[str]) -> None:
    missing = [
        f"{name}: {span}"
        for name, span in spans(documents)
        if SOURCE_FILE.fullmatch(span)
        and span not in UNTRACKED
        and not any(f"/{path}".endswith(f"/{span}") for path in tracked)
    ]
    assert missing == []


@cache
def resolves(dotted: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_python_names_exist(documents: dict[str, str]) -> None:
    missing = [
        f"{name}: {found}"
        for name, span in spans(documents)
        for found in DOTTED.findall(span)
        if span.startswith(found) and not resolves(found)
    ]
    assert missing == []


def test_settings_are_read_somewhere(
    root: Path, documents: dict[str, str], tracked: list[str]
) -> None:
    sources = [path for path in tracked if path.endswith((".py", ".rs", ".sh", "Makefile"))]
    read = {
        setting for path in sources for setting in SETTING.findall((root / path).read_text("utf-8"))
    }
    missing = [
        f"{name}: {setting}"
        for name, text in documents.items()
        for setting in set(SETTING.findall(text)) - read
    ]
    assert missing == []


def test_commands_and_their_options_exist(documents: dict[str, str]) -> None:
    group = program(list(COMMANDS))
    wrong, seen = [], 0
    for name, words in commands(documents):
        command = group
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        if command is group:
            wrong.append(f"{name}: assay {' '.join(words)}")
            continue
        # What follows -- is the command line of another program.
        words = words[: words.index("--")] if "--" in words else words
        known = {option for parameter in command.params for option in parameter.opts}
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        seen += len(given)
        wrong += [f"{name}: assay {command.name} {one}" for one in given - known - {"--help"}]
    assert seen > 50
    assert wrong == []


def test_every_page_is_in_the_list_of_documents(documents: dict[str, str]) -> None:
    listed = {f"docs/{target}" for target in LINK.findall(documents["docs/README.md"])}
    assert listed == {name for name in documents if re.match(r"docs/\w+/", name)}


def rows(text: str) -> dict[str, str]:
    """Second cells of table rows, keyed by the code in the first cell."""
    return dict(re.findall(r"^\| `([^`]+)` \| ([^|]*?) \|", text, re.MULTILINE))


def test_every_knob_is_in_the_guide_with_its_default(documents: dict[str, str]) -> None:
    documented = rows(documents["docs/guides/engine.md"])
    assert documented == {name: str(knob.default) for name, knob in KNOBS.items()}


def test_every_suite_is_in_the_guide_and_on_the_first_page(documents: dict[str, str]) -> None:
    assert set(rows(documents["docs/guides/benchmarking.md"])) == set(SUITES)
    assert all(f"`{name}`" in documents["README.md"] for name in SUITES)


def test_every_code_of_the_servers_errors_is_in_the_guide(
    root: Path, documents: dict[str, str]
) -> None:
    folder = root / "python" / "assay" / "engine" / "server"
    code = "\n".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    codes = set(re.findall(r'code="(\w+)"', code))
    assert "model_not_found" in codes
    assert [one for one in codes if f"`{one}`" not in documents["docs/guides/serving.md"]] == []
