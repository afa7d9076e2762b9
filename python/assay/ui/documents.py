"""The documentation: Markdown files beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

IN_CHECKOUT: Final = Path(__file__).parents[3] / "docs"
IN_WHEEL: Final = Path(__file__).with_name("documents")
_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)
_ROW: Final = re.compile(r"^\| ([^|\n]+) \| ([^|\n]+) \| `([^`|\n]+)` \| `([^`|\n]+)` \|$", re.M)
GLOSSARY: Final = "reference/glossary"


class Document(NamedTuple):
    """A page of the documentation."""

    name: str
    """Its path without the ending: `guides/ui`."""
    title: str
    text: str


def folder() -> Path | None:
    """The folder of the documentation; None where an installation has none."""
    return next((root for root in (IN_CHECKOUT, IN_WHEEL) if (root / "README.md").is_file()), None)


@cache
def documents() -> dict[str, Document]:
    """Every page by its name."""
    root = folder()
    if root is None:
        return {}
    pages = {}
    for path in sorted(root.rglob("*.md")):
        name = path.relative_to(root).with_suffix("").as_posix()
        text = path.read_text("utf-8")
        title = _TITLE.search(text)
        pages[name] = Document(name, title.group(1) if title else name, text)
    return pages


@cache
def glossary() -> list[dict[str, str]]:
    """The terms of the glossary with their meanings, and where each lives."""
    page = documents().get(GLOSSARY)
    if page is None:
        return []
    return [
        {"term": term.strip(), "meaning": meaning.strip(), "file": file, "symbol": symbol}
        for term, meaning, file, symbol in _ROW.findall(page.text)
    ]
