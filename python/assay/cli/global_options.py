"""Options that every command has, declared once and added to each."""

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
    from typer.main import get_params_convertors_ctx_param_name_from_function

    for parameter in command.params:
        if parameter.param_type_name == "argument" and parameter.metavar is not None:
            parameter.make_metavar = partial(_metavar, parameter)
    command.params += get_params_convertors_ctx_param_name_from_function(_options)[0]


def _metavar(parameter: Any, ctx: Any, *, usage: bool = False) -> str:
    """An argument's name in help; Typer puts required ones into braces, which read as a choice."""
    name = str(parameter.metavar)
    return f"[{name}]" if usage and not parameter.required and not name.startswith("[") else name
