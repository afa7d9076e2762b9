"""What the commands about levers share: arguments, and values of knobs as text."""

from pathlib import Path
from typing import Annotated, Any

from assay.cli.declaring import option

Engine = Annotated[
    str | None,
    option(
        "--engine NAME", "Levers of one engine: assay, llama.cpp, vllm, or one that a file names."
    ),
]
Files = Annotated[
    list[Path] | None,
    option(
        "--file FILE",
        "A lever file of your own; may be repeated. Its levers add to the library's and "
        "replace those of the same name and engine.",
    ),
]


def value(setting: Any) -> str:
    """A value of a knob as a lever file writes it."""
    if setting is None or isinstance(setting, bool):
        return {None: "null", True: "true", False: "false"}[setting]
    return str(setting)
