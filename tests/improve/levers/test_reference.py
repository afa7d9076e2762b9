"""docs/reference/levers.md is that of the library."""

import pytest

import generate_lever_reference


def test_the_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_lever_reference.main(["--check"]) == 0, capsys.readouterr().err
