"""The graph in the formats of other tools."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay import stack
from assay.answers import Answer
from assay.errors import InputError, one_of
from assay.model.graphs.subgraph import Subgraph
from assay.model.registry import Registry
from assay.scenario.questions.graph import DIRECTIONS

FORMATS: Final = ("dot", "graphml", "json", "latex", "tape")


@dataclass(frozen=True)
class ExportAnswer(Answer):
    """The graph, or a part of it, as text in a format; `output` is the file that holds it."""

    form: str
    source: Registry | Subgraph
    text: str
    output: str | None

    def to_json(self) -> dict[str, Any]:
        """What was exported, and the text where no file holds it, as JSON data."""
        return {
            "format": self.form,
            "variables": len(self.source.variables),
            "constants": len(self.source.constants),
            "relations": len(self.source.relations),
            "output": self.output,
            "bytes": len(self.text.encode()),
            "text": self.text if self.output is None else None,
        }


def export_graph(
    variable: str | None = None,
    form: str = "dot",
    *,
    direction: str = "up",
    depth: int | None = None,
    output: str | None = None,
    force: bool = False,
) -> ExportAnswer:
    """Write the graph, or the subgraph around a variable, as DOT, GraphML, JSON, LaTeX or tapes.

    With `output` it is written to that file, which `force` overwrites.
    """
    one_of("format", form, FORMATS)
    registry = stack.registry()
    if form == "tape" and variable is not None:
        raise InputError("format tape is of the whole graph", f"leave out {variable}")
    source: Registry | Subgraph = registry
    if variable is not None:
        chosen = one_of("direction", direction, DIRECTIONS)
        source = registry.graph.subgraph(variable, chosen, depth)
    if form == "tape":
        from assay.model.tapes.portable import graph_text

        text = graph_text(registry) + "\n"
    else:
        text = _write_format(source, form)
    if output is not None:
        _write_file(output, text, force=force)
    return ExportAnswer(form, source, text, output)


def _write_format(source: Registry | Subgraph, form: str) -> str:
    """The graph, or a part of it, in one of the formats."""
    from assay.model.graphs import export

    if form == "latex":
        return export.to_latex(source, standalone=True)
    writers = {"dot": export.to_dot, "graphml": export.to_graphml, "json": export.to_json}
    return writers[form](source)


def _write_file(output: str, text: str, *, force: bool) -> None:
    """Write a file atomically; `force` overwrites an existing one."""
    from assay.paths import write_atomically

    path = Path(output)
    try:
        is_device = path.absolute().parts[1:2] in (("dev",), ("proc",))
        if is_device or (path.exists() and not path.is_file()):
            raise InputError(f"{output} is not a regular file", "omit --output to print instead")
        if path.exists() and not force:
            raise InputError(f"{output} exists already", "--force overwrites it")
        if not path.resolve().parent.is_dir():
            raise InputError(f"the folder of {output} does not exist", "create it first")
        write_atomically(path.resolve(), text.encode())
        # Temporary files have mode 0600; the result gets the default mode.
        mask = os.umask(0)
        os.umask(mask)
        path.chmod(0o666 & ~mask)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{output} cannot be written: {reason}") from None
