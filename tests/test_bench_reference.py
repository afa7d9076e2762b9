"""The generated benchmark pages match the stored results."""

import re
from pathlib import Path

import pytest

import generate_bench_reference


def test_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_bench_reference.main(["--check"]) == 0, capsys.readouterr().err


def test_check_notices_a_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_bench_reference, "COMMAND", "something else")
    assert generate_bench_reference.main(["--check"]) == 1
    assert "out of date" in capsys.readouterr().err


MEASURED = re.compile(
    r"\|[^|\n]*\b[0-9][0-9.,]* ?(?:x|ms|us|ns|GB/s|TB/s|tok/s|tokens/s|GFLOP/s|TFLOP/s) \|"
)
"""A cell that is a measured figure: a ratio, a time or a rate."""


def test_no_table_of_measured_figures_in_readme_and_guides_is_typed(root: Path) -> None:
    """Each stands between the comment of the script that writes it and its end."""
    pages = [root / "README.md", *(root / "docs" / "guides").glob("*.md")]
    pages += (root / "docs" / "concepts").glob("*.md")
    typed = []
    for path in pages:
        text = re.sub(r"(?s)<!-- [\w-]+: [^>]*-->.*?<!-- end -->", "", path.read_text("utf-8"))
        typed += [f"{path.name}: {row}" for row in MEASURED.findall(text)]
    assert typed == []


def test_a_typed_table_is_noticed() -> None:
    assert MEASURED.search("| gemm | 1.40x |")
    assert MEASURED.search("| decode | 3.54 ms |")
    assert not MEASURED.search("| `--budget` | 20m |")
