"""The generated benchmark pages match the stored results."""

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
