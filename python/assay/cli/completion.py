"""`assay completion`: the script with which a shell completes commands, options and names."""

from importlib import import_module
from typing import Annotated, Any, Final

from assay.cli.declaring import argument, option
from assay.cli.output import Report
from assay.errors import unknown_name

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_ASSAY_COMPLETE"
"""Set by the script when the shell asks for completions."""


def completion_command(
    shell: Annotated[str, argument("SHELL", "bash, zsh or fish.")],
    as_json: Annotated[bool, option("--json", "Print JSON instead of text.")] = False,
) -> Report:
    """Print a shell's completion script.

    For bash, put `eval "$(assay completion bash)"` into ~/.bashrc; for zsh the same with zsh into
    ~/.zshrc, after compinit; for fish, `assay completion fish | source` into config.fish.
    """
    if shell not in SHELLS:
        raise unknown_name("shell", shell, SHELLS)
    # Typer does not export it by name.
    library: Any = import_module("typer.completion")
    script = library.get_completion_script(prog_name="assay", complete_var=VARIABLE, shell=shell)
    data = {"shell": shell, "script": script}
    return Report(data, lambda canvas: (), as_json, raw=script.rstrip() + "\n")


def complete_presets(incomplete: str) -> list[str]:
    """Scenarios that come with Assay."""
    from assay.scenario import built_in

    return [name for name in built_in.presets() if name.startswith(incomplete)]


def complete_entries(incomplete: str) -> list[str]:
    """Entries of the catalog, as GROUP/NAME."""
    from assay.catalog import entries

    every = (f"{group}/{name}" for group in entries.groups() for name in entries.names(group))
    return [name for name in every if name.startswith(incomplete)]


def complete_variables(incomplete: str) -> list[str]:
    """Variables of the model."""
    from assay import stack

    return [name for name in stack.registry().variables if name.startswith(incomplete)]


def complete_models(incomplete: str) -> list[str]:
    """Models known by name."""
    from assay.engine.loading.opening import SYNTHETIC
    from assay.engine.loading.sources import SOURCES

    return [name for name in (*SOURCES, SYNTHETIC) if name.startswith(incomplete)]
