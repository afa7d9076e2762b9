"""`assay export`: the graph in the formats of other tools."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from assay.cli import options
from assay.cli.output import Report, report_of, working
from assay.errors import InputError, one_of
from assay.scenario import built_in
from assay.scenario.questions.exporting import FORMATS, export_graph
from assay.scenario.questions.graph import DIRECTIONS


def site_report(
    folder: str | None, presets: Sequence[str] | None, as_json: bool, *, force: bool
) -> Report:
    """Write the site and say what it has."""
    if folder is None:
        raise InputError("export site needs a folder", "assay export site DIR")
    if importlib.util.find_spec("fastapi") is None:
        raise InputError(
            "assay export site needs fastapi, which is not installed",
            "install it with: pip install 'assay[ui]'",
        )
    from assay.ui.site import PAGES, PRESETS, export_site

    chosen = [one_of("preset", name, list(built_in.presets())) for name in presets or PRESETS]

    with working("exporting") as progress:
        site = export_site(Path(folder), chosen, progress, force=force)
    line = f"{site.folder}/index.html: {len(PAGES)} pages, {site.files:,} files, {site.size / 1e6:.1f} MB"
    return report_of(site, lambda _: [line], as_json)


SITE: Final = "site"


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
    answer = export_graph(
        variable, form, direction=direction, depth=depth, output=output, force=force
    )
    if output is None:
        return report_of(answer, lambda _: (), as_json, raw=answer.text)
    return report_of(answer, lambda _: [f"{Path(output)}"], as_json)
