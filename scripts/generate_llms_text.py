"""Writes llms.txt: what Assay is and where its pages are, for language models (llmstxt.org).

python scripts/generate_llms_text.py          # write it
python scripts/generate_llms_text.py --check  # exit with 1 if it is out of date
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from generated_pages import write_or_check
from site_markdown import tokens_of
from site_navigation import groups_of

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "llms.txt"
COMMAND = "python scripts/generate_llms_text.py"


def summary(readme: str) -> str:
    """The first sentence of README.md below its question, on one line."""
    paragraphs = [token.content for token in tokens_of(readme) if token.type == "inline"]
    return f"{' '.join(paragraphs[2].split()).partition('. ')[0]}."


def text_of(root: Path) -> str:
    """The whole file."""
    readme = (root / "README.md").read_text("utf-8")
    version = re.search(
        r'^version = "([^"]+)"$', (root / "pyproject.toml").read_text("utf-8"), re.M
    )
    lines = [
        "# Assay",
        "",
        f"> {summary(readme)}",
        "",
        f"Version {version[1] if version else 'unknown'}. Every command has `--help` and `--json`; `assay mcp` offers"
        " the questions as tools. Numbers carry units, sources and intervals; what was assumed is said.",
        "",
        "## Start",
        "",
        "- [README](README.md): what it does, with commands to copy",
        "- [Commands](docs/reference/cli.md): every command and option",
        "- [Architecture](ARCHITECTURE.md): the map of the sources",
    ]
    seen = {"docs/reference/cli.md"}
    for group in groups_of((root / "docs" / "README.md").read_text("utf-8")):
        entries = []
        for entry in group.entries:
            name = posixpath.normpath(posixpath.join("docs", entry.target.partition("#")[0]))
            if not name.startswith("docs/") or name in seen:
                continue
            seen.add(name)
            entries.append(
                f"- [{entry.label}]({name})" + (f": to {entry.purpose}" if entry.purpose else "")
            )
        if entries:
            lines += ["", f"## {group.title}", "", *entries]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write or check the file."""
    return write_or_check({PAGE: text_of(ROOT)}, COMMAND, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
