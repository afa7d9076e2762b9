"""Markdown of the documentation as HTML: headings with the anchors of GitHub, links between pages, text to search."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_DROPPED = re.compile(r"[^\w\- ]")


@dataclass(frozen=True)
class Section:
    """A heading with the text below it, up to the next heading."""

    title: str
    anchor: str
    level: int
    text: str


@dataclass(frozen=True)
class Rendered:
    """A page: its title, its body as HTML, its sections."""

    title: str
    body: str
    sections: tuple[Section, ...]

    @property
    def anchors(self) -> frozenset[str]:
        """What `page.html#...` may name."""
        return frozenset(section.anchor for section in self.sections)


def parser() -> MarkdownIt:
    """CommonMark with tables; HTML of the sources is shown, never passed on."""
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def anchor_of(title: str, used: set[str]) -> str:
    """The anchor that GitHub gives a heading, numbered where an earlier one has it."""
    plain = _DROPPED.sub("", title.strip().lower()).replace(" ", "-")
    anchor, number = plain, 0
    while anchor in used:
        number += 1
        anchor = f"{plain}-{number}"
    used.add(anchor)
    return anchor


def tokens_of(text: str) -> list[Token]:
    """The tokens of a Markdown text, without the comments of generators."""
    return parser().parse(_COMMENT.sub("", text))


def plain_text(token: Token) -> str:
    """The words of an inline token, without marks."""
    return "".join(child.content or " " for child in token.children or [] if child.type != "image")


def render(text: str, target_of: Callable[[str], str]) -> Rendered:
    """A Markdown text as HTML; `target_of` gives the address of a link as it stands in the site."""
    tokens = tokens_of(text)
    used: set[str] = set()
    sections: list[Section] = []
    words: list[str] = []
    title, anchor, level = "", "", 0

    def close() -> None:
        if anchor:
            sections.append(Section(title, anchor, level, " ".join(" ".join(words).split())))
        words.clear()

    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            close()
            title, level = plain_text(tokens[index + 1]), int(token.tag[1:])
            anchor = anchor_of(title, used)
            token.attrSet("id", anchor)
        elif token.type == "inline":
            if tokens[index - 1].type != "heading_open":
                words.append(plain_text(token))
            for child in token.children or []:
                _point(child, target_of)
        elif token.type == "fence":
            words.append(token.content)
    close()
    body = parser().renderer.render(tokens, parser().options, {})
    body = body.replace("<table>", '<div class="wide" tabindex="0"><table>')
    body = body.replace("</table>", "</table></div>").replace("<pre>", '<pre tabindex="0">')
    first = sections[0].title if sections else "untitled"
    return Rendered(first, body, tuple(sections))


def _point(token: Token, target_of: Callable[[str], str]) -> None:
    for name in ("href", "src"):
        if (address := token.attrGet(name)) is not None:
            token.attrSet(name, target_of(str(address)))


def escaped(text: str) -> str:
    """A text for HTML, in content or in an attribute."""
    return html.escape(text, quote=True)
