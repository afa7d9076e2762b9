"""Every code block of the documents is run, parsed, or has a reason why not; `make documents` runs them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from document_blocks import SHELL, Block, all_blocks, blocks_of
from document_rules import BUILDS, DATA, EXIT_CODES, FIRST, GPU, NOT_RUN, RECORDS, reason


@pytest.fixture(scope="module")
def blocks(root: Path) -> list[Block]:
    return all_blocks(root)


READ = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
"""Languages of data, and what reads them."""


def test_blocks_are_of_languages_that_something_runs_or_reads(blocks: list[Block]) -> None:
    """`python` runs in tests/test_examples.py, `py` and commands by `make documents`."""
    known = {*SHELL, *READ, "python", "py"}
    assert [block.place for block in blocks if block.language not in known] == []
    assert len(blocks) > 250


def test_data_in_documents_are_valid(blocks: list[Block]) -> None:
    data = [block for block in blocks if block.language in READ]
    assert data
    for block in data:
        assert READ[block.language](block.text), block.place


def test_programs_in_documents_compile(blocks: list[Block]) -> None:
    for block in blocks:
        if block.language in ("py", "python"):
            compile(block.text, block.place, "exec")


def test_blocks_without_a_command_are_known(blocks: list[Block]) -> None:
    bare = {
        block.document
        for block in blocks
        if block.language in SHELL and not block.commands and not block.document.startswith(RECORDS)
    }
    assert bare == set(DATA)


def test_every_line_of_a_block_of_commands_is_a_command(blocks: list[Block]) -> None:
    """Otherwise a command that the pattern misses would never run."""
    wrong = []
    for block in blocks:
        if block.commands:
            joined = re.sub(r"\\\n\s*", "", block.text)
            lines = [line for line in joined.splitlines() if line.strip()]
            if len(lines) != len(block.commands):
                wrong.append(block.place)
    assert wrong == []


def test_every_rule_leaves_something_out(blocks: list[Block]) -> None:
    commands = [(block, command) for block in blocks for command in block.commands]
    for rule in NOT_RUN:
        first, *others = rule.pattern.split("|^")
        for pattern in (first, *(f"^{other}" for other in others)):
            assert any(re.search(pattern, command) for _, command in commands), pattern
    known = {command for _, command in commands}
    assert set(EXIT_CODES) <= known
    assert set(FIRST) <= {block.document for block, _ in commands}


def test_most_commands_that_need_no_gpu_are_run(blocks: list[Block]) -> None:
    guides = [
        b for b in blocks if b.document.startswith(("README", "docs/guides", "docs/concepts"))
    ]
    reasons = [reason(block, command) for block in guides for command in block.commands]
    possible = [said for said in reasons if said not in (GPU, BUILDS)]
    assert possible.count(None) > 0.6 * len(possible)


def test_remarks_prompts_and_continued_lines_are_no_part_of_a_command() -> None:
    text = (
        "```console\n$ assay a \\\n    --b 'x y'   # why\nassay c     a column\n```\n"
        "  ```\n  make x\n  ```\n"
    )
    first, second = blocks_of("page.md", text)
    assert first.commands == ["assay a --b 'x y'", "assay c"]
    assert (second.line, second.commands) == (6, ["make x"])


@pytest.mark.slow
def test_commands_of_the_documents_run(root: Path) -> None:
    program = root / "tests" / "documents" / "run_documents.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
