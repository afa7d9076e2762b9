"""`/validate`: the answers of the command, computed once in a process of its own, and kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from assay.cli.output import json_text
from assay.cli.validate import validate_command
from assay.ui import children
from assay.ui.api import validate

ANSWER = b'{"groups": [], "scores": []}\n'


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    return tmp_path


@pytest.fixture
def closing() -> Iterator[threading.Event]:
    """The mark of a server that ends, taken back after the test."""
    yield children._CLOSING
    children._CLOSING.clear()


def refuse(words: Sequence[str]) -> bytes:
    raise AssertionError("computed although it was kept")


def test_child_prints_what_the_command_answers() -> None:
    expected = json_text(validate_command(suite="flash", as_json=True))
    words = ["validate", "--suite", "flash", "--json", "--quiet"]
    assert children.run_command(words).decode() == expected


def test_answer_is_kept_for_each_kind(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []

    def answer(words: Sequence[str]) -> bytes:
        asked.append(words)
        return ANSWER

    monkeypatch.setattr(validate, "run_command", answer)
    assert validate.validate_scores("training").body == ANSWER
    assert validate.validate_scores("all").body == ANSWER
    assert [words[2] for words in asked] == ["training", "all"]
    # As after a restart: what is on disk answers.
    monkeypatch.setattr(validate, "run_command", refuse)
    assert validate.validate_scores("training").body == ANSWER
    # A damaged file is computed again.
    (kept,) = (scratch / "cache" / "validation").glob("*-training.json")
    kept.write_bytes(kept.read_bytes()[:-3])
    monkeypatch.setattr(validate, "run_command", answer)
    assert validate.validate_scores("training").body == ANSWER
    assert len(asked) == 3


def test_other_program_or_data_computes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "run_command", lambda words: ANSWER)
    validate.validate_scores("kernels")
    monkeypatch.setattr(validate, "_fingerprint", lambda: "another")
    monkeypatch.setattr(validate, "run_command", refuse)
    with pytest.raises(AssertionError, match="computed although"):
        validate.validate_scores("kernels")


def test_key_is_that_of_the_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    for name in ("stack/equations.py", "catalog/cases.json", "ui/page.py"):
        path = package / name
        path.parent.mkdir(parents=True)
        path.write_text("one")
    monkeypatch.setattr(validate.assay, "__file__", str(package / "__init__.py"))
    first = validate._fingerprint()
    for name in ("ui/page.py", "stack/equations.py", "catalog/cases.json"):
        (package / name).write_text("two")
        changed = validate._fingerprint()
        assert (changed == first) == name.startswith("ui/")
        # The same content again, at another time, is the same key.
        (package / name).write_text("one")
        assert validate._fingerprint() == first


def test_failing_command_is_an_error_with_its_last_words() -> None:
    with pytest.raises(children.ChildError, match=r"got exit code 2: .*nonsense") as caught:
        children.run_command(["validate", "--suite", "nonsense", "--json"])
    assert "--summary" in str(caught.value.hint)


def test_children_end_with_the_server(closing: threading.Event) -> None:
    caught: list[Exception] = []

    def wait() -> None:
        try:
            children.run_command(["ui", "--no-open", "--port", "0"])
        except children.ChildError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not children._CHILDREN:
        time.sleep(0.01)
    begun = time.monotonic()
    children.end_children()
    thread.join()
    assert time.monotonic() - begun < 5
    assert closing.is_set()
    with pytest.raises(children.ChildError, match="the server is ending"):
        children.run_command(["validate"])
