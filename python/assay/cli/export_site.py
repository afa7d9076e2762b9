"""`assay export site`: pages that a browser opens without a server."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from assay.cli.output import Report, report_of, working
from assay.errors import InputError, one_of
from assay.scenario import built_in


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
