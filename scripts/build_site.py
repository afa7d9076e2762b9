"""Builds the documentation as a site: pages that open from a file or from any server, with search.

python scripts/build_site.py                # into dist/site
python scripts/build_site.py --out FOLDER

`make site` runs it. Nothing is fetched, then or when a page is read. The folders are those of the repository:
README.md is index.html, docs/guides/ui.md is docs/guides/ui.html. Every link, anchor and picture must exist.
"""

from __future__ import annotations

import argparse
import json
import os
import posixpath
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

import generate_llms_text
from site_markdown import Rendered, escaped, render
from site_navigation import Group, groups_of

ROOT = Path(__file__).resolve().parent.parent
ASSETS = Path(__file__).resolve().parent / "site_assets"
OUT = ROOT / "dist" / "site"
FIRST = ("README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
LIST = "docs/README.md"

PAGE = Template("""<!doctype html>
<html lang="en" data-root="$root">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title - Assay</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${root}style.css">
</head>
<body>
<a class="skip" href="#content">To the text</a>
<aside>
<a class="name" href="${root}index.html">Assay</a>
<input id="search" type="search" placeholder="Search (press /)" aria-label="Search" autocomplete="off">
<p id="state" role="status"></p>
<ul id="results"></ul>
<nav id="contents" aria-label="Contents">
$navigation
</nav>
</aside>
<main id="content">
$body
<footer>Built from <a href="${root}$source">$source</a>.</footer>
</main>
<script src="${root}search.js"></script>
</body>
</html>
""")


class SiteError(Exception):
    """What of the documentation cannot be built."""


@dataclass(frozen=True)
class Site:
    """Pages by their source, the addresses of the sources, and what pages show besides."""

    pages: Mapping[str, Rendered]
    addresses: Mapping[str, str]
    files: frozenset[str]
    groups: tuple[Group, ...]


def sources(root: Path) -> dict[str, str]:
    """The Markdown of every page, by its path in the repository."""
    paths = [root / name for name in FIRST] + sorted((root / "docs").rglob("*.md"))
    return {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in paths}


def address_of(source: str, root: Path) -> str:
    """The address of a page; beside a report that is HTML already, another name."""
    if source == "README.md":
        return "index.html"
    stem = source.removesuffix(".md")
    return f"{stem}-page.html" if (root / f"{stem}.html").exists() else f"{stem}.html"


def is_outside(link: str) -> bool:
    """Whether a link leaves the site."""
    return link.startswith(("http:", "https:", "mailto:"))


def read_site(root: Path) -> Site:
    """Every page as HTML; raises where a link, an anchor or a picture does not exist."""
    texts = sources(root)
    addresses = {source: address_of(source, root) for source in texts}
    files: set[str] = set()
    anchors: list[tuple[str, str, str]] = []
    wrong: list[str] = []
    pages: dict[str, Rendered] = {}

    def target(source: str, link: str) -> str:
        path, _, anchor = link.partition("#")
        if is_outside(link):
            return link
        folder = posixpath.dirname(source)
        named = posixpath.normpath(posixpath.join(folder, path)) if path else source
        if anchor and named in addresses:
            anchors.append((source, named, anchor))
        if named not in addresses:
            if not (root / named).is_file() or named.startswith(".."):
                wrong.append(f"{source}: no file {link}")
                return link
            files.add(named)
        here = posixpath.dirname(addresses[source]) or "."
        relative = posixpath.relpath(addresses.get(named, named), here)
        return relative + (f"#{anchor}" if anchor else "")

    for source, text in texts.items():
        pages[source] = render(text, lambda link, source=source: target(source, link))  # type: ignore[misc]
    wrong += [
        f"{source}: {named} has no heading #{anchor}"
        for source, named, anchor in anchors
        if anchor not in pages[named].anchors
    ]
    if wrong:
        raise SiteError("\n".join(wrong))
    return Site(pages, addresses, frozenset(files), tuple(groups_of(texts[LIST])))


def navigation(site: Site, current: str, to_root: str) -> str:
    """The list of pages beside one of them; its own group is open."""
    lines: list[str] = []
    start = [(name, site.pages[name].title) for name in FIRST]
    start[0] = (FIRST[0], "Overview")
    listed: list[tuple[str, list[tuple[str, str]]]] = [
        ("Start", [*start, (LIST, "All pages, by what one wants to do")])
    ]
    for group in site.groups:
        names = [
            posixpath.normpath(posixpath.join("docs", entry.target)) for entry in group.entries
        ]
        unique = [name for name in dict.fromkeys(names) if name in site.pages and name not in FIRST]
        listed.append((group.title, [(name, site.pages[name].title) for name in unique]))
    for title, entries in listed:
        here = any(name == current for name, _ in entries)
        lines.append(f"<details{' open' if here else ''}><summary>{escaped(title)}</summary><ul>")
        for name, label in entries:
            mark = ' aria-current="page"' if name == current else ""
            lines.append(
                f'<li><a href="{to_root}{site.addresses[name]}"{mark}>{escaped(label)}</a></li>'
            )
        lines.append("</ul></details>")
    return "\n".join(lines)


def search_index(site: Site) -> str:
    """Every section, as a script that a page opened from a file may load."""
    sections = [
        {
            "address": f"{site.addresses[source]}#{section.anchor}",
            "page": page.title,
            "title": section.title,
            "text": section.text,
        }
        for source, page in site.pages.items()
        for section in page.sections
    ]
    return f"window.SEARCH_INDEX = {json.dumps(sections, ensure_ascii=True, indent=0)};\n"


def write(site: Site, root: Path, out: Path) -> None:
    """Writes the site into a folder, which is replaced."""
    shutil.rmtree(out, ignore_errors=True)
    for source, page in site.pages.items():
        address = site.addresses[source]
        to_root = "../" * address.count("/")
        place = out / address
        place.parent.mkdir(parents=True, exist_ok=True)
        text = PAGE.substitute(
            root=to_root,
            title=escaped(page.title),
            navigation=navigation(site, source, to_root),
            body=page.body,
            source=source,
        )
        place.write_text(text, encoding="utf-8")
        # The sources stand beside the pages: llms.txt names them.
        shutil.copyfile(root / source, out / source)
    for name in site.files:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, out / name)
    for asset in sorted(ASSETS.iterdir()):
        shutil.copyfile(asset, out / asset.name)
    (out / "search-index.js").write_text(search_index(site), encoding="utf-8")
    (out / "llms.txt").write_text(generate_llms_text.text_of(root), encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Builds the site; the exit code."""
    options = argparse.ArgumentParser(description="Builds the documentation as a site.")
    options.add_argument("--out", type=Path, default=OUT, help="the folder, which is replaced")
    out: Path = options.parse_args(arguments).out
    if out.exists() and not (out / "search-index.js").is_file() and any(out.iterdir()):
        print(f"error: {out} holds other files than a site", file=sys.stderr)
        print("hint: name a folder that does not exist", file=sys.stderr)
        return 2
    try:
        site = read_site(ROOT)
    except SiteError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    write(site, ROOT, out)
    print(f"{len(site.pages)} pages in {os.path.relpath(out)}; open index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
