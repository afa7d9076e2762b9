"""The page of kernel figures says what the kept results say."""

import pytest

import generate_kernel_reference


def test_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_kernel_reference.main(["--check"]) == 0, capsys.readouterr().err


def test_check_notices_a_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_kernel_reference, "COMMAND", "something else")
    assert generate_kernel_reference.main(["--check"]) == 1
    assert "out of date" in capsys.readouterr().err
