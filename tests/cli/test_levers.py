"""`assay levers`: list, show and check."""

from pathlib import Path
from typing import Any

import pytest

KEYS = [
    "name", "engine", "mechanism", "knobs", "applies", "addresses", "changes", "safety", "hot",
    "correctness", "memory", "inverse", "reference", "source",
]  # fmt: skip
MINE = """\
format: assay.levers/1
engine: lmdeploy
levers:
  - name: radix-cache
    mechanism: Shared prefixes are computed once.
    knobs: {disable_radix_cache: [false]}
    applies: [knob.disable_radix_cache == true]
    safety: safe
    hot: false
    correctness: rounding
    reference: its documentation
"""


def test_list_has_every_lever_with_all_keys(cli: Any) -> None:
    outcome = cli("levers", "list", "--json")
    assert outcome.code == 0
    assert len(outcome.data) >= 30
    for one in outcome.data:
        assert list(one) == KEYS
        assert one["knobs"]
        for knob in one["knobs"]:
            assert list(knob) == ["knob", "values", "riskier"]


def test_list_of_an_engine_and_a_file(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE)
    outcome = cli("levers", "list", "--engine", "lmdeploy", "--file", str(path))
    assert outcome.code == 0
    header, row, *_, last = outcome.out.splitlines()
    assert header.split() == ["lever", "engine", "change", "risk", "outputs", "knobs"]
    assert row.split() == [
        "radix-cache", "lmdeploy", "restart", "safe", "rounding", "disable_radix_cache",
    ]  # fmt: skip
    assert last.startswith("1 lever;")


def test_show_by_name_and_by_engine(cli: Any) -> None:
    both = cli("levers", "show", "larger-batch", "--json")
    assert [one["engine"] for one in both.data] == ["assay", "sglang", "tensorrt-llm", "vllm"]
    one = cli("levers", "show", "vllm/larger-batch")
    assert "max_num_seqs" in one.out
    assert "max_batch" not in one.out
    assert "inverse" in one.out
    assert "set back, by a restart" in one.out


def test_check_counts_the_levers_of_files(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE)
    outcome = cli("levers", "check", str(path))
    assert (outcome.code, outcome.out) == (0, f"{path}: 1 lever, valid\n")
    built_in = cli("levers", "check", "--json").data
    assert [list(one) for one in built_in] == [["file", "levers"]] * 6
    assert sum(one["levers"] for one in built_in) >= 30


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("safety: safe", "safety: fine", "lever radix-cache: safety: expected one of safe"),
        ("== true", "== ", "lever radix-cache: applies: knob.disable_radix_cache =="),
        ("[false]", "*x", "expected no alias, got *x in line 6"),
        ("format: assay.levers/1", "format: 2", "expected format: assay.levers/1, got 2"),
    ],
)
def test_check_names_a_mistake_and_exits_with_2(
    cli: Any, tmp_path: Path, old: str, new: str, why: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE.replace(old, new))
    outcome = cli("levers", "check", str(path))
    assert outcome.code == 2
    assert outcome.out == ""
    assert why in outcome.err
    assert str(path) in outcome.err


def test_a_huge_file_is_refused_unread(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    path.write_bytes(b"a: [" + b"[" * (1 << 18))
    outcome = cli("levers", "check", str(path))
    assert outcome.code == 2
    assert "expected at most 262,144 bytes, got 262,148" in outcome.err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("levers", "show", "grafs"), 'unknown lever "grafs"'),
        (("levers", "list", "--engine", "vlm"), 'unknown engine "vlm"'),
        (("levers", "check", "/nowhere.yaml"), "No such file"),
    ],
)
def test_unknown_names_are_refused(cli: Any, words: tuple[str, ...], error: str) -> None:
    outcome = cli(*words)
    assert outcome.code == 2
    assert error in outcome.err
