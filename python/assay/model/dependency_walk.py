"""Depth-first walks over definitions with an explicit stack.

Definitions may be nested thousands of relations deep, and which relation defines a variable may
depend on values found on the way. Each variable is therefore a generator that yields the names it
needs, is sent their results, and returns its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, MutableMapping
from typing import TypeVar

from assay.errors import CycleError

Result = TypeVar("Result")
Walk = Generator[str, Result, Result]


def walk(
    name: str, begin: Callable[[str], Walk[Result]], done: MutableMapping[str, Result]
) -> Result:
    """Compute `name` and all it needs, adding results to `done` in order of completion.

    A generator may itself add the results of other names to `done`; those are not walked again.
    """
    if name in done:
        return done[name]
    stack: list[tuple[str, Walk[Result]]] = [(name, begin(name))]
    active = {name}
    answer: Result | None = None
    while stack:
        current, steps = stack[-1]
        try:
            # The first `send` of a generator must be None, whatever the type of its results.
            needed = steps.send(answer)  # type: ignore[arg-type]
        except StopIteration as finished:
            answer = done.setdefault(current, finished.value)
            stack.pop()
            active.discard(current)
            continue
        if needed in done:
            answer = done[needed]
        elif needed in active:
            path = [entry for entry, _ in stack]
            raise CycleError(
                f"cyclic definition: {' <- '.join([*path[path.index(needed) :], needed])}",
                "give one of them a value, choose another variant, or declare a simultaneous block",
            )
        else:
            stack.append((needed, begin(needed)))
            active.add(needed)
            answer = None
    return done[name]
