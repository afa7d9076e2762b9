"""Where a case was published: the unit that is left out when constants predict what they never saw.

A source is a repository, a paper, or a page of a vendor. Releases, branches, folders and tables of
it are the same source: one team wrote them, with one benchmark and often one machine.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from assay.validate.cases import Case

_PAPER = re.compile(r"^/(?:abs|pdf|html)/(\d{4}\.\d{4,5})")


def source_of(case: Case) -> str:
    """The source of a case: `arxiv.org/ID`, `github.com/owner/name`, or the site of a page.

    The rule reads the address only. Cases without one go by the title of their source, and
    cases that state neither are their suite.
    """
    url = str(case.source.get("url") or "").strip()
    if not url:
        title = str(case.source.get("title") or "").strip().lower()
        return title or case.suite
    parts = urlsplit(url if "//" in url else f"//{url}")
    host = (parts.hostname or "").removeprefix("www.")
    if host == "arxiv.org" and (paper := _PAPER.match(parts.path)):
        return f"arxiv.org/{paper[1]}"
    folders = [folder for folder in parts.path.lower().split("/") if folder]
    if host in ("github.com", "raw.githubusercontent.com", "gitlab.com") and len(folders) > 1:
        owner, name = folders[0], folders[1].removesuffix(".git")
        return f"{host.replace('raw.githubusercontent', 'github')}/{owner}/{_unreleased(name)}"
    return host or url.lower()


def _unreleased(name: str) -> str:
    """The name of a repository without its release, as that of `training_results_v5.0`.

    A release is digits and points at the end, after a `v` or a mark; names of digits only stay.
    """
    stem = name.rstrip("0123456789.")
    shorter = stem.removesuffix("v").rstrip("-_.")
    return shorter if shorter and stem != name and shorter != stem else name
