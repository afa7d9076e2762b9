"""Where given names stand in a text as whole words, whatever their case."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def replaced_names(text: str, names: Sequence[str], word: Callable[[str], str]) -> str:
    """The text with every name as a whole word replaced; of two at one place, the longer.

    >>> replaced_names("Ann on ann-1, not Anna", ["ann", "ann-1"], lambda name: f"<{name}>")
    '<ann> on <ann-1>, not Anna'
    """
    lower = _lower(text)
    wanted = sorted({_lower(name) for name in names}, key=len, reverse=True)
    parts: list[str] = []
    done = at = 0
    while (place := _next(lower, wanted, at)) >= 0:
        name = next((name for name in wanted if _stands(lower, name, place)), None)
        at = place + 1
        if name is not None:
            parts += [text[done:place], word(name)]
            done = at = place + len(name)
    return "".join([*parts, text[done:]])


def holds_name(content: bytes, names: Sequence[str]) -> bool:
    """Whether a name stands in bytes as a whole word."""
    text = _lower(content.decode("utf-8", "replace"))
    return any(_is_in(text, _lower(name)) for name in names)


def _next(text: str, names: Sequence[str], at: int) -> int:
    """The first place from `at` on where any of the names begins; -1 where none does."""
    places = [place for name in names if (place := text.find(name, at)) >= 0]
    return min(places, default=-1)


def _is_in(text: str, name: str) -> bool:
    at = text.find(name)
    while at >= 0:
        if _stands(text, name, at):
            return True
        at = text.find(name, at + 1)
    return False


def _stands(text: str, name: str, at: int) -> bool:
    end = at + len(name)
    return (
        text.startswith(name, at)
        and not (at and _is_letter(text[at - 1]))
        and not (end < len(text) and _is_letter(text[end]))
    )


def _is_letter(character: str) -> bool:
    return character.isalnum() or character == "_"


def _lower(text: str) -> str:
    """Lower case of the same length: a few letters become several."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
