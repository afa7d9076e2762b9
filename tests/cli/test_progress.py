"""Commands that take long say so, off a terminal too."""

import pytest

from assay.cli import output

from .conftest import Cli


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that pass between two looks at the clock."""
    now, step = [0.0], [0.0]

    def monotonic() -> float:
        now[0] += step[0]
        return now[0]

    monkeypatch.setattr(output.time, "monotonic", monotonic)
    return step


def test_updates_off_a_terminal_are_rare(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    clock[0] = 2.0
    with output.working("counting") as progress:
        for number in range(9):
            progress(f"counted {number}")
    # A look every two seconds, and another after each line: one line in six seconds.
    assert capsys.readouterr().err == "counted 2\ncounted 5\ncounted 8\n"


def test_quick_commands_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with output.working("counting") as progress:
        progress("counted")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["scenario-audit", "scenario-report"])
def test_scenarios_are_counted(cli: Cli, clock: list[float], command: str) -> None:
    clock[0] = 9.0
    what = "auditing" if command == "scenario-audit" else "reporting on"
    name = "dense_training_cost_fixture"
    lines = cli(command, name).err.splitlines()
    assert lines[0] == f"{what} {name}, 1 of 1"
    assert cli(command, name, "--quiet").err == ""
