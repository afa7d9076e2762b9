"""Elements of a picture; texts of a trace are data and are escaped."""

from __future__ import annotations

from html import escape

from assay.escaping import clipped

Attribute = str | float | int


def element(name: str, content: str = "", /, **attributes: Attribute) -> str:
    """An element with content that is markup already; `_` in names of attributes is `-`.

    >>> element("rect", x=1, width=2.5, class_="a<b")
    '<rect x="1" width="2.5" class="a&lt;b"/>'
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
    )
    return f"<{name}{words}>{content}</{name}>" if content else f"<{name}{words}/>"


def text(words: str, x: float, y: float, class_: str = "", anchor: str = "start") -> str:
    """A line of text."""
    return element("text", escape(words), x=x, y=y, class_=class_, text_anchor=anchor)


def titled(shape: str, words: str) -> str:
    """A shape that says `words` when pointed at."""
    return f"<g>{shape}<title>{escape(clipped(words, 300))}</title></g>"


def picture(content: str, width: float, height: float, label: str) -> str:
    """A picture that fits the width of the page; `label` describes it to those who cannot see it."""
    return element(
        "svg", content, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label
    )


def _number(value: Attribute) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
