"""JSON with one record a line, for data that programs write and people read as diffs.

>>> print(dumps({"name": "a", "rows": [{"x": 1, "y": [2, 3]}, {"x": 4}], "unit": {"s": 1}}, 2))
{
 "name": "a",
 "rows": [
  {"x": 1, "y": [2, 3]},
  {"x": 4}
 ],
 "unit": {"s": 1}
}
"""

from __future__ import annotations

import json
from typing import Any


def dumps(data: Any, depth: int) -> str:
    """The data as JSON text without a final newline.

    Containers at the first `depth` levels have one item a line, unless they hold scalars only;
    everything deeper is one line.
    """
    return _text(data, depth, 0)


def _text(data: Any, depth: int, level: int) -> str:
    if not isinstance(data, (dict, list, tuple)):
        return json.dumps(data)
    values = list(data.values() if isinstance(data, dict) else data)
    if level >= depth or not any(isinstance(value, (dict, list, tuple)) for value in values):
        return json.dumps(data)
    items = [_text(value, depth, level + 1) for value in values]
    start, end = "[]"
    if isinstance(data, dict):
        start, end = "{}"
        items = [f"{json.dumps(str(key))}: {item}" for key, item in zip(data, items, strict=True)]
    space = " " * (level + 1)
    return f"{start}\n{space}" + f",\n{space}".join(items) + f"\n{space[1:]}{end}"
