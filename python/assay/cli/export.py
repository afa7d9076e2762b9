"""`assay export`: the graph in the formats of other tools."""

from pathlib import Path
from typing import Annotated, Final

from assay.cli import options
from assay.cli.declaring import argument, option
from assay.cli.output import Report, report_of
from assay.errors import InputError
from assay.scenario.questions.exporting import FORMATS, export_graph
from assay.scenario.questions.graph import DIRECTIONS

SITE: Final = "site"


def export_command(
    variable: Annotated[
        str | None,
        argument(
            "[VARIABLE|site]",
            "Only the subgraph around this variable; `site` writes pages instead.",
        ),
    ] = None,
    folder: Annotated[str | None, argument("[DIR]", "site: the folder to write.")] = None,
    form: Annotated[
        str, option("--format", "The format to write.", metavar="|".join(FORMATS))
    ] = "dot",
    output: Annotated[
        str | None, option("--output -o FILE", "Write a file instead of stdout.")
    ] = None,
    force: Annotated[bool, option("--force", "Overwrite the file or site.")] = False,
    preset: Annotated[
        list[str] | None,
        option(
            "--preset PRESET",
            "site: receipts and cones of this scenario; of one that serves and one that trains "
            "if not given. May be repeated.",
        ),
    ] = None,
    direction: Annotated[
        str,
        option(
            "--direction",
            "up: inputs of the variable; down: its dependents; or both.",
            metavar="|".join(DIRECTIONS),
        ),
    ] = "up",
    depth: Annotated[
        int | None, option("--depth N", "Most relations between the variable and the rest.")
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Write the graph as DOT, GraphML, JSON, LaTeX or tapes.

    The format `tape` has every relation as a lowered program, for evaluators elsewhere; pages use it.
    `assay export site DIR` writes pages of assay ui (lab, receipts, cones, atlas and validation) that
    a browser opens from files, without a server; those of the documentation are built by make site.
    """
    if variable == SITE:
        from assay.cli.export_site import site_report

        return site_report(folder, preset, as_json, force=force)
    if folder is not None:
        raise InputError(f'unexpected argument "{folder}"', f"assay export {SITE} DIR writes pages")
    answer = export_graph(
        variable, form, direction=direction, depth=depth, output=output, force=force
    )
    if output is None:
        return report_of(answer, lambda _: (), as_json, raw=answer.text)
    return report_of(answer, lambda _: [f"{Path(output)}"], as_json)
