"""`--verbose` and `--quiet`: the same on every command, before or after its name."""

from typing import Any

import pytest

from assay.cli import models
from assay.cli.output import Report, working

from .conftest import Cli


@pytest.fixture
def talkative(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `assay models` report a note, a detail and progress."""

    def listing(as_json: bool) -> Report:
        with working("counting", log=True) as progress:
            progress("counted")
        return Report({}, lambda canvas: ["result"], as_json, notes=["a note"], details=["more"])

    monkeypatch.setattr(models, "_listing", listing)


@pytest.mark.usefixtures("talkative")
@pytest.mark.parametrize(
    ("words", "err"),
    [
        (("models",), "counted\nnote: a note\n"),
        (("models", "--verbose"), "counted\nnote: a note\nnote: more\n"),
        (("-v", "models"), "counted\nnote: a note\nnote: more\n"),
        (("models", "-q"), ""),
        (("--quiet", "models"), ""),
    ],
)
def test_what_goes_to_stderr(cli: Cli, words: tuple[str, ...], err: str) -> None:
    outcome = cli(*words)
    assert (outcome.code, outcome.out, outcome.err) == (0, "result\n", err)


@pytest.mark.usefixtures("talkative")
def test_choice_ends_with_its_command(cli: Cli) -> None:
    assert cli("models", "--quiet").err == ""
    assert "a note" in cli("models").err


@pytest.mark.parametrize("words", [("-q", "models", "-v"), ("models", "-q", "-v")])
def test_both_at_once_are_refused(cli: Cli, words: tuple[str, ...]) -> None:
    outcome = cli(*words)
    assert outcome.code == 2
    assert outcome.err == (
        "error: --verbose and --quiet contradict each other\nhint: give one of them\n"
    )


def test_errors_are_shown_quietly_too(cli: Cli) -> None:
    outcome = cli("-q", "show", "no.such")
    assert outcome.code == 2
    assert "unknown" in outcome.err


def test_misspelled_before_the_command(cli: Cli) -> None:
    outcome = cli("--verbos", "models")
    assert (outcome.code, outcome.out) == (2, "")
    assert "did you mean --verbose?" in outcome.err


def test_every_command_has_both() -> None:
    from assay.cli.app import COMMANDS, by_name, program

    group: Any = program(list(COMMANDS))
    for command in (group, *group.commands.values(), *by_name(group).values()):
        options = [name for parameter in command.params for name in parameter.opts]
        assert {"--verbose", "--quiet"} <= set(options), command.name
        assert len(options) == len(set(options)), command.name
