"""External text made safe to print: control characters never reach a terminal."""

from __future__ import annotations


def one_line(text: str) -> str:
    r"""The text on one line, with control characters escaped.

    >>> one_line("a\nb \x1b[2J")
    'a\\nb \\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def clipped(text: str, width: int) -> str:
    """The text on one line of at most so many characters; `..` ends what was cut.

    >>> clipped("gemm_kernel", 8), clipped("gemm", 8)
    ('gemm_k..', 'gemm')
    """
    # A name may be gigantic: no more of it is escaped than can be shown.
    shown = one_line(text[: width + 1])
    return shown if len(shown) <= width else shown[: max(width - 2, 0)] + ".."
