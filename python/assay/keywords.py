"""Keywords of public functions that collect them: an unknown one is refused by its name.

A function whose `**keywords` are the fields of something else passes them on, so that Python's own
error would name an inner class, and one that only looks for what it knows would ignore the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

from assay.errors import InputError, unknown_name

P = ParamSpec("P")
R = TypeVar("R")


class UnknownKeywordError(InputError, TypeError):
    """A keyword that a function does not take."""


def takes(
    collected: Iterable[str], said: Mapping[str, str] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse keywords that are neither of the function's own nor among those it collects.

    `said` has words of the command line, or of another function, with the keyword for each.

    >>> @takes(["sequences", "context"], {"batch": "sequences"})
    ... def predict(model, *, dtype=None, **batch):
    ...     return batch
    >>> predict("tiny", sequences=4)
    {'sequences': 4}
    >>> predict("tiny", batch=4)
    Traceback (most recent call last):
        ...
    assay.keywords.UnknownKeywordError: predict: unknown keyword "batch"
    hint: did you mean sequences? known: model, dtype, sequences, context
    """
    names = tuple(collected)

    def checked(function: Callable[P, R]) -> Callable[P, R]:
        own = [
            parameter.name
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind
            in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        ]
        known = dict.fromkeys((*own, *names))
        # A function's `__name__`; `R` may be anything that is called.
        name = getattr(function, "__name__", "function")

        @wraps(function)
        def call(*positional: P.args, **keywords: P.kwargs) -> R:
            for keyword in keywords:
                if keyword not in known:
                    raise unknown_keyword(name, keyword, known, said or {})
            return function(*positional, **keywords)

        return call

    return checked


def unknown_keyword(
    function: str, keyword: str, known: Iterable[str], said: Mapping[str, str]
) -> UnknownKeywordError:
    """The error that names the keyword, those that are known, and the nearest of them."""
    listed = f"known: {', '.join(known)}"
    meant = said.get(keyword)
    near = f"did you mean {meant}?" if meant else None
    if near is None:
        # Against words of the command line too: they are what resembles a word of it.
        error = unknown_name("keyword", keyword, known, "")
        near = error.hint if error.hint and error.hint.startswith("did you mean") else None
    return UnknownKeywordError(
        f'{function}: unknown keyword "{keyword}"', f"{near} {listed}" if near else listed
    )
