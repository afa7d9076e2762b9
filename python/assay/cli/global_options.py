"""Options that every command has, declared once and added to each."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from assay.cli.verbosity import Verbosity, choose


def _verbose(given: bool) -> None:
    if given:
        choose(Verbosity.VERBOSE)


def _quiet(given: bool) -> None:
    if given:
        choose(Verbosity.QUIET)


def _options(
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", callback=_verbose, expose_value=False, help="Show every note."
        ),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            callback=_quiet,
            expose_value=False,
            help="Show errors only: no notes, no progress.",
        ),
    ] = False,
) -> None:
    """The signature from which Typer builds the two options."""


def add_options(command: Any) -> None:
    """Give a command, or the program, the two options."""
    for parameter in command.params:
        if parameter.param_type_name == "argument" and parameter.metavar is not None:
            parameter.make_metavar = partial(_metavar, parameter)
            parameter.get_usage_pieces = partial(_usage_pieces, parameter)
    command.params += parameters_of(_options)


def parameters_of(signature: Callable[..., None]) -> list[Any]:
    """The options of a signature, as Typer makes them for a program of one command."""
    from typer.main import get_command

    application = typer.Typer(add_completion=False)
    application.command(add_help_option=False)(signature)
    return list(get_command(application).params)


def _metavar(parameter: Any, ctx: Any, *, usage: bool = False) -> str:
    """An argument's name in help, without the marks that Typer adds."""
    return str(parameter.metavar)


def _usage_pieces(parameter: Any, ctx: Any) -> list[str]:
    """An argument in the usage line; Typer puts required ones into braces, which read as a choice."""
    name = str(parameter.metavar)
    return [name if parameter.required or name.startswith("[") else f"[{name}]"]
