"""Python code in documents and examples runs."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest
from decode_traces import config, replayed

from assay.improve.journal.journal import Journal
from assay.store.finding import make_store

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path: Path) -> None:
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_link_example_finds_the_closed_form() -> None:
    """Half of the rate is reached at alpha * b = 5 us * 50 GB/s = 250,000 bytes (Hockney's n_1/2)."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "own_equations.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "250000 bytes" in done.stdout


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_blocks_of_documents_run(
    path: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of one document form one program."""
    blocks = _BLOCK.findall(path.read_text(encoding="utf-8"))
    if any('"smollm2"' in block for block in blocks):
        request.getfixturevalue("smollm2")
    if any('"trace.json.gz"' in block for block in blocks):
        config(tmp_path)
        replayed().save(tmp_path / "trace.json")
        packed = gzip.compress((tmp_path / "trace.json").read_bytes())
        (tmp_path / "trace.json.gz").write_bytes(packed)
    if any('"journal.jsonl"' in block for block in blocks):
        with Journal.create(tmp_path) as journal:
            journal.append("started", subject="a document")
    if any("assay.find_items" in block for block in blocks):
        monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
        make_store()
    if blocks:
        run("\n".join(blocks), tmp_path)
