"""The CLI reference page matches the commands' help."""

import pytest

import generate_cli_reference


def test_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_cli_reference.main(["--check"]) == 0, capsys.readouterr().err


def test_check_notices_a_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_cli_reference, "ABOUT", "Something else.")
    assert generate_cli_reference.main(["--check"]) == 1
    assert "out of date" in capsys.readouterr().err
