"""Random damage: of bytes, and of JSON documents whose structure stays mostly valid."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any, Final

NUMBERS: Final = (
    0,
    1,
    -1,
    2,
    3,
    7,
    255,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**53,
    2**63,
    2**64 - 1,
    2**70,
)
TEXTS: Final = (
    "",
    "x",
    "\0",
    "\U0001f600",
    "../x",
    "NaN",
    "true",
    "a" * 5000,
    "F32",
    "llama",
    "$ref",
    "#",
)
JUNK: Final = (
    None,
    True,
    False,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    [],
    {},
    [[]],
    {"": {}},
)


def damaged_bytes(data: bytes, chance: Random, header: int) -> bytes:
    """Some bytes changed, moved, left out or put in, mostly in the first `header` ones."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        size = min(len(found), header if chance.random() < 0.9 else len(found))
        at = chance.randrange(max(size, 1))
        match chance.randrange(6):
            case 0:
                found[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                width = chance.choice((2, 4, 8))
                value = chance.choice(NUMBERS) % (1 << (8 * width))
                found[at : at + width] = value.to_bytes(width, "little")
            case 2:
                del found[at : at + chance.randint(1, 16)]
            case 3:
                found[at:at] = chance.randbytes(chance.randint(1, 16))
            case 4:
                start = chance.randrange(max(len(found), 1))
                found[at : at + 32] = found[start : start + 32]
            case _:
                if chance.random() < 0.2:
                    del found[chance.randrange(max(len(found), 1)) :]
    return bytes(found)


def damaged_json(document: Any, chance: Random) -> Any:
    """The document with one to three of its values or keys changed."""
    found = deepcopy(document)
    for _ in range(chance.randint(1, 3)):
        found = _damage(found, chance)
    return found


def _damage(document: Any, chance: Random) -> Any:
    places = list(_places(document))
    if not places:
        return _junk(chance, [document])
    holder, key = chance.choice(places)
    values = [one[at] for one, at in places]
    match chance.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[chance.choice(TEXTS)] = holder.pop(key)
        case 2:
            holder[key] = deepcopy(chance.choice(values))
        case 3 if isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = chance.choice(
                (holder[key] + 1, holder[key] - 1, -holder[key], 2 * holder[key])
            )
        case 4:
            for _ in range(chance.choice((1, 3, 200))):
                holder[key] = [holder[key]] if chance.random() < 0.5 else {"x": holder[key]}
        case _:
            holder[key] = _junk(chance, values)
    return document


def _places(document: Any, depth: int = 0) -> Any:
    """Every container with each of its keys, down to a depth at which nothing new comes."""
    if depth > 12 or not isinstance(document, dict | list):
        return
    for key in list(document) if isinstance(document, dict) else range(len(document)):
        yield document, key
        yield from _places(document[key], depth + 1)


def _junk(chance: Random, values: list[Any]) -> Any:
    junk = chance.choice((NUMBERS, TEXTS, JUNK, values))
    # A copy: a container that is part of itself is no JSON.
    return deepcopy(chance.choice(junk))
