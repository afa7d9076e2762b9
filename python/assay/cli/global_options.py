"""Options that every command has, declared once and added to each."""

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

    command.params += get_params_convertors_ctx_param_name_from_function(_options)[0]
