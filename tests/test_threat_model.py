"""The threat model: every line names tests that exist, and every kind of input that is fuzzed or listed has a line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

KINDS = (
    *("model files", "traces", "YAML", "CUDA sources", "adapters", "audio", "pages"),
    *("network peers", "buckets"),
)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@pytest.fixture(scope="module")
def rows(root: Path) -> dict[str, str]:
    text = (root / "docs" / "design" / "threat-model.md").read_text("utf-8")
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")][1:]
    return {cells[0].strip(): cells[3] for cells in lines}


def test_every_kind_of_input_has_a_line(rows: dict[str, str]) -> None:
    assert [kind for kind in KINDS if not any(kind in row for row in rows)] == []


def test_every_line_names_tests_that_exist(root: Path, rows: dict[str, str]) -> None:
    missing = []
    for row, cell in rows.items():
        named = TEST.findall(cell)
        assert named, row
        for path, name in named:
            place = root / path
            text = place.read_text("utf-8") if place.is_file() else ""
            if not re.search(rf"^def {name}\(" if name else r"^def test_", text, re.MULTILINE):
                missing.append(f"{row}: {path}::{name}")
    assert missing == []
