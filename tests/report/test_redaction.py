"""Copies without names and prompts: nothing private is left, and they verify by themselves."""

import hashlib
import json
import platform
import shutil
from pathlib import Path

import polars as pl
import pytest

from assay.errors import CheckFailedError, InputError
from assay.improve.loop.record import RunRecord
from assay.report.redacted_run import redact_run
from assay.report.redaction import Redactor
from assay.report.signing import make_key, read_private_key
from assay.report.stored import sign_report
from assay.report.verify import verify, verify_report

Finished = tuple[Path, RunRecord]


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(["Project Zephyr"], key=b"test")


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("model in /data/jane/models/a.gguf, q4", "/data/jane/models/a.gguf"),
        ("at ~/notes/x.json", "~/notes/x.json"),
        ("http://gpu7.corp.example:8000/v1", "gpu7.corp.example"),
        ("by jane.doe@corp.example", "jane.doe@corp.example"),
        ("the PROJECT ZEPHYR run", "PROJECT ZEPHYR"),
    ],
)
def test_what_is_private_becomes_a_word(redactor: Redactor, text: str, private: str) -> None:
    before, _, after = text.partition(private)
    shown = redactor.text(text)
    assert shown.startswith(f"{before}redacted-")
    assert shown.endswith(after)
    # A number that no row gives would fail the verification of a claim.
    assert not any(letter.isdigit() for letter in shown[len(before) : len(shown) - len(after)])


@pytest.mark.parametrize(
    "text", ["1.5x (1.4 to 1.6)", "tokens/s", "http://127.0.0.1:8000/v1", "a / b", "and/or 1/2/3"]
)
def test_what_is_not_private_stays(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text


def test_entries_of_prompts_and_names_are_replaced_whole(redactor: Redactor) -> None:
    data = {
        "prompt": "secret plan",
        "messages": [{"role": "user", "content": "secret plan"}],
        "processes": [{"pid": 7, "name": "payroll"}],
        "batch": {"prompt": 12},
        "settings": {"threads": 2, "kv_format": "bf16"},
    }
    shown = redactor.data(data)
    assert "secret" not in json.dumps(shown)
    assert "payroll" not in json.dumps(shown)
    assert shown["prompt"] == shown["messages"][0]["content"]
    assert shown["batch"] == {"prompt": 12}
    assert shown["settings"] == data["settings"]


def test_tables_have_their_nested_texts_replaced(redactor: Redactor) -> None:
    frame = pl.DataFrame(
        {
            "source": ["host", "nvidia"],
            "device": ["gpu7", "0"],
            "settings": ['{"draft_model": "/data/jane/draft"}', None],
            "processes": [[{"pid": 1, "name": "payroll"}], None],
        }
    )
    shown = redactor.table(frame)
    assert shown.schema == frame.schema
    text = str(shown.to_dicts())
    assert not any(word in text for word in ("gpu7", "jane", "payroll"))
    assert shown["device"][1] == "0"


def test_names_of_two_letters_are_refused() -> None:
    with pytest.raises(InputError, match="3 letters or more"):
        Redactor(["ab"], key=b"")


@pytest.fixture
def run(finished: Finished, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished[0], tmp_path / finished[0].name))


def test_a_copy_verifies_and_states_the_originals(
    run: Path, tmp_path: Path, redactor: Redactor
) -> None:
    statement = redact_run(run, tmp_path / "copy", redactor)
    verification = verify(tmp_path / "copy")
    assert verification.is_verified
    assert any("names and prompts were taken out" in note for note in verification.notes)
    assert (
        statement["files"]["plan.json"]
        == hashlib.sha256((run / "plan.json").read_bytes()).hexdigest()
    )
    # The same again is the same, so that a push of it sends nothing.
    redact_run(run, tmp_path / "again", redactor)
    for path in (tmp_path / "copy").rglob("*"):
        same = tmp_path / "again" / path.relative_to(tmp_path / "copy")
        assert path.is_dir() or same.read_bytes() == path.read_bytes()
    assert (
        platform.node().lower() not in (tmp_path / "copy" / "report.md").read_text().lower().split()
    )


def test_a_model_by_its_name_is_taken_out_everywhere(run: Path, tmp_path: Path) -> None:
    fingerprint = json.loads((run / "report.json").read_text())["provenance"]["fingerprint"]
    name = str(fingerprint["model"])
    redact_run(run, tmp_path / "copy", Redactor([name], key=b"test"))
    assert verify(tmp_path / "copy").is_verified
    for path in (tmp_path / "copy").rglob("*"):
        assert path.is_dir() or name.encode() not in path.read_bytes(), path


def test_a_copy_is_refused_by_the_key_of_the_original(
    run: Path, tmp_path: Path, redactor: Redactor
) -> None:
    """It is what a forger would make: chained anew as a whole, and right without a signature."""
    pytest.importorskip("cryptography")
    made = make_key(tmp_path / "key")
    sign_report(run, read_private_key(Path(made.private)))
    redact_run(run, tmp_path / "copy", redactor)
    shutil.copy(run / "report.sig", tmp_path / "copy" / "report.sig")
    for key in (None, made.public):
        (failure,) = verify_report(str(tmp_path / "copy"), key).failures
        assert "is not the one that key" in failure.statement
    (tmp_path / "copy" / "report.sig").unlink()
    assert verify_report(str(tmp_path / "copy")).is_verified
    sign_report(tmp_path / "copy", read_private_key(Path(made.private)))
    assert verify_report(str(tmp_path / "copy"), made.public).is_verified


def test_what_does_not_verify_is_not_redacted(
    run: Path, tmp_path: Path, redactor: Redactor
) -> None:
    (run / "plan.json").write_text("{}")
    with pytest.raises(CheckFailedError, match="is not redacted"):
        redact_run(run, tmp_path / "copy", redactor)
    assert not (tmp_path / "copy").exists()
