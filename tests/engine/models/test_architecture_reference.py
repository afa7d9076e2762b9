"""The table of architectures in the documentation is that of the engine."""

import pytest

import generate_architecture_reference


def test_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_architecture_reference.main(["--check"]) == 0, capsys.readouterr().err
