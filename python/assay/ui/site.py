"""A static site: pages and their answers as files, which a browser opens without a server.

Browsers refuse to fetch files, so each answer is a script that hands its data to the page. The site
is written beside its place and renamed when it is complete.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.answers import Answer, Progress, silent, to_json
from assay.errors import InputError
from assay.ui import assets
from assay.ui.api import atlas, graph, lab, validate

PAGES: Final = ("lab", "receipt", "cone", "atlas", "validate")
"""Pages of a site; the others are about this machine."""

PRESETS: Final = graph.EXPORTED
"""Scenarios whose receipts and cones a site has, unless others are named."""

_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9._/-]")
_MARK: Final = "assay-site.json"
"""A folder with this file is a site, which --force may replace."""


@dataclass(frozen=True)
class Site(Answer):
    """A site that was written."""

    folder: Path
    files: int
    size: int
    answers: int

    def to_json(self) -> dict[str, Any]:
        """What the site has, as JSON data."""
        return {
            "folder": str(self.folder),
            "pages": list(PAGES),
            "files": self.files,
            "answers": self.answers,
            "bytes": self.size,
        }


def export_site(
    folder: Path, presets: Sequence[str], progress: Progress = silent, *, force: bool = False
) -> Site:
    """Write the pages and what they ask for; receipts and cones are those of the presets' targets."""
    target = folder.absolute()
    _check(target, force=force)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        answers = _write(partial, presets, progress)
        # The folder of a temporary file is closed to others; a site is meant to be read.
        partial.chmod(0o755)
        files = [path for path in partial.rglob("*") if path.is_file()]
        site = Site(folder, len(files), sum(path.stat().st_size for path in files), answers)
        _place(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return site


def _check(target: Path, *, force: bool) -> None:
    """Refuse a place that holds something else."""
    if not target.parent.is_dir():
        raise InputError(f"the folder of {target} does not exist", "create it first")
    if not target.exists():
        return
    if not target.is_dir():
        raise InputError(f"{target} is not a folder", "name a folder that does not exist yet")
    if not any(target.iterdir()):
        return
    if not (target / _MARK).is_file():
        raise InputError(f"{target} is not empty and holds no site", "name another folder")
    if not force:
        raise InputError(f"{target} holds a site already", "--force replaces it")


def _place(partial: Path, target: Path) -> None:
    """Rename the complete site to its place; an old one is removed afterwards."""
    old: Path | None = None
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
        os.rename(target, old / "site")
    os.rename(partial, target)
    if old is not None:
        shutil.rmtree(old)


def _write(folder: Path, presets: Sequence[str], progress: Progress) -> int:
    _copy_assets(folder / "assets")
    (folder / "index.html").write_text(_index())
    settings = {"data": "data", "pages": PAGES}
    # A site has no Home: that page is about the runs of a machine.
    (folder / "site.js").write_text(
        f"window.__ASSAY_STATIC__ = {json.dumps(settings)};\n"
        f'if (location.hash.length < 3) location.replace("#/{PAGES[0]}");\n'
    )
    written = 0
    for key, text in answers(presets):
        progress(f"writing {key}")
        path = folder / "data" / f"{file_name(key)}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"__assayAnswer({json.dumps(key)},{text.strip()});\n")
        written += 1
    (folder / _MARK).write_text(to_json({"presets": list(presets), "answers": written}) + "\n")
    return written


def answers(presets: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every answer of the site as JSON, by request."""
    yield from lab.exported(presets)
    yield from graph.exported(presets)
    yield from atlas.exported(presets)
    yield from validate.exported()


def file_name(key: str) -> str:
    """The file of an answer, as the pages look for it: unusual characters are written as ~hex."""
    return _UNUSUAL.sub(lambda match: f"~{ord(match.group()):02x}", key)


def _index() -> str:
    """The page of the server, with its files in a folder, and the settings of the site before them."""
    page = (assets.FOLDER / "index.html").read_text().replace('"./', '"assets/')
    script = '<script src="assets/app.js"'
    assert script in page
    return page.replace(script, f'<script src="site.js"></script>\n    {script}')


def _copy_assets(folder: Path) -> None:
    """The script, its styles, and the fonts and pictures that they refer to."""
    folder.mkdir(parents=True)
    for path in sorted(assets.FOLDER.iterdir()):
        if path.suffix in (".js", ".css", ".woff2", ".svg"):
            shutil.copyfile(path, folder / path.name)
