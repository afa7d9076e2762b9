from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from assay.cli.output import json_text
from assay.cli.validate import validate_command
from assay.ui.api import validate


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    validate._scores.cache_clear()
    yield tmp_path
    validate._scores.cache_clear()


def refuse(**_: object) -> None:
    raise AssertionError("computed although it was kept")


def test_kept_answer_is_that_of_the_command(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = partial(validate_command, suite="flash")
    expected = json_text(command(as_json=True))
    monkeypatch.setattr(validate, "validate_command", command)
    assert validate.validate_scores().body.decode() == expected
    # As after a restart: what is in memory is gone, what is on disk answers.
    validate._scores.cache_clear()
    monkeypatch.setattr(validate, "validate_command", refuse)
    assert validate.validate_scores().body.decode() == expected
    # A damaged file is computed again.
    (kept,) = (scratch / "cache" / "validation").iterdir()
    kept.write_bytes(kept.read_bytes()[:-3])
    validate._scores.cache_clear()
    monkeypatch.setattr(validate, "validate_command", command)
    assert validate.validate_scores().body.decode() == expected


def test_other_program_or_data_computes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    command = partial(validate_command, suite="flash")
    monkeypatch.setattr(validate, "validate_command", command)
    validate.validate_scores()
    validate._scores.cache_clear()
    monkeypatch.setattr(validate, "_fingerprint", lambda: "another")
    monkeypatch.setattr(validate, "validate_command", refuse)
    with pytest.raises(AssertionError, match="computed although"):
        validate.validate_scores()


def test_key_reads_code_and_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    for name in ("stack/equations.py", "catalog/cases.json", "ui/page.py"):
        path = package / name
        path.parent.mkdir(parents=True)
        path.write_text("one")
    monkeypatch.setattr(validate.assay, "__file__", str(package / "__init__.py"))
    seen = [validate._fingerprint()]
    for name in ("ui/page.py", "stack/equations.py", "catalog/cases.json"):
        (package / name).write_text("another")
        seen.append(validate._fingerprint())
    assert seen[0] == seen[1]
    assert len(set(seen)) == 3
