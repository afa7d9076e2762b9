"""Options and arguments as their help shows them: `option("--batch N", "Sequences of a step.")`."""

from typing import Any

import typer


def option(names: str, meaning: str, **more: Any) -> Any:
    """An option by its names, separated by spaces, and then what a value of it is called."""
    words = names.split(" ")
    flags = [word for word in words if word.startswith("-")]
    value = " ".join(words[len(flags) :]) or more.pop("metavar", None)
    return typer.Option(*flags, metavar=value, help=meaning, **more)


def argument(value: str, meaning: str, **more: Any) -> Any:
    """An argument by what a value of it is called."""
    return typer.Argument(metavar=value, help=meaning, **more)
