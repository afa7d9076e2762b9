"""Data of an answer that an assistant can read whole: what is long is cut, and named with what it lacks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

_EACH: Final = "*"
"""In the path of a list: every item of the list before."""


def fitted(data: Any, most: int) -> tuple[Any, dict[str, int]]:
    """Data of at most so many characters of JSON, and how many items its lists lack, by their paths.

    The list that takes most is halved until all of it fits: no value that an answer has one of is
    left out. Conditions that do not hold are kept before those that do.

    >>> fitted({"value": 3, "trace": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}, 40)
    ({'value': 3, 'trace': [{'name': 'a'}]}, {'trace': 2})
    """
    data = json.loads(json.dumps(data))
    left_out: dict[str, int] = {}
    while _size(data) > most:
        path = _heaviest([data])
        lists = [] if path is None else [each for each in _at([data], path) if each]
        if path is None or not lists:
            return None, {}
        name = ".".join(part for part in path if part != _EACH) or "answer"
        for each in lists:
            kept = len(each) // 2
            left_out[name] = left_out.get(name, 0) + len(each) - kept
            each[:] = sorted(each, key=_holds)[:kept]
    return data, left_out


def _holds(item: Any) -> bool:
    return isinstance(item, dict) and item.get("status") == "true"


def _size(data: Any) -> int:
    return len(json.dumps(data, separators=(",", ":")))


def _heaviest(nodes: Sequence[Any]) -> tuple[str, ...] | None:
    """The path to the lists that take most; the inner ones where those are most of the outer."""
    sizes: dict[str, int] = {}
    children: dict[str, list[Any]] = {}
    for node in nodes:
        for key, value in node.items() if isinstance(node, dict) else ():
            if isinstance(value, list | dict):
                sizes[key] = sizes.get(key, 0) + _size(value)
                children.setdefault(key, []).append(value)
    items = [item for node in nodes if isinstance(node, list) for item in node]
    if items:
        inner = _heaviest(items)
        found = [] if inner is None else [*_at(items, inner)]
        if inner is not None and 2 * sum(map(_size, found)) > sum(map(_size, items)):
            return (_EACH, *inner)
        return ()
    for key in sorted(sizes, key=lambda name: -sizes[name]):
        if isinstance(children[key][0], list) and not any(children[key]):
            continue
        inner = _heaviest(children[key])
        if inner is not None:
            return (key, *inner)
    return None


def _at(nodes: Sequence[Any], path: Sequence[str]) -> Iterator[list[Any]]:
    """The lists at a path below some nodes."""
    if not path:
        yield from (node for node in nodes if isinstance(node, list))
        return
    first, *rest = path
    if first == _EACH:
        below = [item for node in nodes if isinstance(node, list) for item in node]
    else:
        below = [node[first] for node in nodes if isinstance(node, dict) and first in node]
    yield from _at(below, rest)
