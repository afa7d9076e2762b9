"""What the commands about levers share: arguments, and a lever as data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from assay.improve.levers.lever import Lever

Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Levers of one engine: assay, llama.cpp, vllm, or one that a file names.",
    ),
]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="A lever file of your own; may be repeated. Its levers add to the library's and "
        "replace those of the same name and engine.",
    ),
]


def data(lever: "Lever") -> dict[str, Any]:
    """A lever as plain data."""
    return {
        "name": lever.name,
        "engine": lever.engine,
        "mechanism": lever.mechanism,
        "knobs": [
            {"knob": one.knob, "values": list(one.values), "riskier": one.riskier}
            for one in lever.knobs
        ],
        "applies": list(lever.applies),
        "addresses": list(lever.addresses),
        "changes": list(lever.changes),
        "safety": lever.safety,
        "hot": lever.hot,
        "correctness": lever.correctness,
        "inverse": inverse(lever),
        "reference": lever.reference,
        "source": lever.source,
    }


def inverse(lever: "Lever") -> str:
    """How it is taken back."""
    names = " and ".join(one.knob for one in lever.knobs)
    how = "live" if lever.hot else "by a restart"
    return f"{names} set back, {how}, to what the engine read back before the change"


def value(one: Any) -> str:
    """A value of a knob as a lever file writes it."""
    if one is None or isinstance(one, bool):
        return {None: "null", True: "true", False: "false"}[one]
    return str(one)
