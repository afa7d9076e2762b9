"""The order of the pages, as docs/README.md has it: by what one wants to do, then reference and design."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from site_markdown import plain_text, tokens_of


@dataclass(frozen=True)
class Entry:
    """A link: the words beside it that say what it is for, if any, its own words, and its page."""

    purpose: str
    label: str
    target: str


@dataclass(frozen=True)
class Group:
    """Links below one heading of the list of documents."""

    title: str
    entries: tuple[Entry, ...]


def groups_of(text: str) -> list[Group]:
    """The groups of the list of documents: a heading, or a list item that begins with bold words."""
    groups: dict[str, list[Entry]] = {}
    group, purpose, heading = "", "", ""
    tokens = tokens_of(text)
    for index, token in enumerate(tokens):
        if token.type != "inline":
            if token.type == "tr_open":
                purpose = ""
            continue
        before = tokens[index - 1].type
        if before == "heading_open":
            group = heading = plain_text(token)
            continue
        children = token.children or []
        if children and any(child.type == "strong_open" for child in children[:2]):
            words = [child.content for child in children if child.type == "text" and child.content]
            group = f"{heading}: {words[0].lower()}"
        links = list(_links(children))
        if before == "td_open" and not links:
            purpose = plain_text(token)
        for label, target in links:
            groups.setdefault(group, []).append(
                Entry(purpose if before == "td_open" else "", label, target)
            )
    return [Group(title, tuple(entries)) for title, entries in groups.items()]


def _links(children: Sequence[object]) -> list[tuple[str, str]]:
    links: list[tuple[str, str]] = []
    label: list[str] | None = None
    target = ""
    for child in children:
        kind = getattr(child, "type", "")
        if kind == "link_open":
            label, target = [], str(child.attrGet("href"))  # type: ignore[attr-defined]
        elif kind == "link_close" and label is not None:
            links.append((" ".join(label), target))
            label = None
        elif label is not None:
            label.append(getattr(child, "content", ""))
    return links
