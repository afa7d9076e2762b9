"""`assay export`: the graph in the formats of other tools."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from assay import stack
from assay.cli import options
from assay.cli.output import Report
from assay.cli.question import one_of
from assay.errors import InputError
from assay.model.graphs.subgraph import Direction, Subgraph
from assay.model.registry import Registry

FORMATS: Final = ("dot", "graphml", "json", "latex", "tape")
SITE: Final = "site"
DIRECTIONS: Final[tuple[Direction, ...]] = ("up", "down", "both")


def export_command(
    variable: Annotated[
        str | None,
        typer.Argument(
            metavar="[VARIABLE|site]",
            help="Only the subgraph around this variable; `site` writes pages instead.",
        ),
    ] = None,
    folder: Annotated[
        str | None, typer.Argument(metavar="[DIR]", help="site: the folder to write.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="|".join(FORMATS), help="The format to write.")
    ] = "dot",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a file instead of stdout."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file or site.")] = False,
    preset: Annotated[
        list[str] | None,
        typer.Option(
            "--preset",
            metavar="PRESET",
            help="site: receipts and cones of this scenario; of one that serves and one that trains "
            "if not given. May be repeated.",
        ),
    ] = None,
    direction: Annotated[
        str,
        typer.Option(
            "--direction",
            metavar="|".join(DIRECTIONS),
            help="up: inputs of the variable; down: its dependents; or both.",
        ),
    ] = "up",
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth", metavar="N", help="Most relations between the variable and the rest."
        ),
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Write the graph as DOT, GraphML, JSON, LaTeX or tapes.

    The format `tape` has every relation as a lowered program, for evaluators elsewhere; pages use it.
    `assay export site DIR` writes lab, receipts, cones, atlas and validation as pages that a
    browser opens from files, without a server.
    """
    if variable == SITE:
        from assay.cli.export_site import site_report

        return site_report(folder, preset, as_json, force=force)
    if folder is not None:
        raise InputError(f'unexpected argument "{folder}"', f"assay export {SITE} DIR writes pages")
    one_of("format", form, FORMATS)
    registry = stack.registry()
    if form == "tape" and variable is not None:
        raise InputError("format tape is of the whole graph", f"leave out {variable}")
    source: Registry | Subgraph = registry
    if variable is not None:
        source = registry.graph.subgraph(
            variable, one_of("direction", direction, DIRECTIONS), depth
        )
    if form == "tape":
        from assay.model.tapes.portable import graph_text

        text = graph_text(registry) + "\n"
    else:
        text = write_format(source, form)
    data = {
        "format": form,
        "variables": len(source.variables),
        "constants": len(source.constants),
        "relations": len(source.relations),
        "output": output,
        "bytes": len(text.encode()),
        "text": text if output is None else None,
    }
    if output is None:
        return Report(data, lambda _: (), as_json, raw=text)
    path = write_file(output, text, force=force)
    return Report(data, lambda _: [f"{path}"], as_json)


def write_format(source: Registry | Subgraph, form: str) -> str:
    """The graph, or a part of it, in one of the formats."""
    from assay.model.graphs import export

    if form == "latex":
        return export.to_latex(source, standalone=True)
    writers = {"dot": export.to_dot, "graphml": export.to_graphml, "json": export.to_json}
    return writers[form](source)


def write_file(output: str, text: str, *, force: bool) -> Path:
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
    return path
