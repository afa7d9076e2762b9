"""Puts the documentation into the package while a wheel is built, so that its pages can show it.

Run by scripts/build_backend.py when pip builds a wheel, and by scripts/bundle.py. A checkout reads
docs/ itself.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ROOT / "docs"
PLACE = ROOT / "python" / "assay" / "ui" / "documents"


def copy_documents(source: Path, target: Path) -> int:
    """Copies the Markdown files of a folder; returns how many there are."""
    documents = sorted(source.rglob("*.md"))
    for path in documents:
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    return len(documents)


@contextmanager
def placed() -> Iterator[None]:
    """The documents are in the package for as long as this lasts."""
    shutil.rmtree(PLACE, ignore_errors=True)
    try:
        if not copy_documents(DOCUMENTS, PLACE):
            raise FileNotFoundError(f"{DOCUMENTS}: expected Markdown files, got none")
        yield
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)
