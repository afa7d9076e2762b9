"""Random JSON schemas whose valid texts are short, for tests of structured output."""

import random
from typing import Any

MAX_DEPTH = 2


def random_schema(seed: int) -> dict[str, Any]:
    """An object with a few properties of every kind; equal seeds give equal schemas."""
    return _object(random.Random(seed), 0)


def _object(chance: random.Random, depth: int) -> dict[str, Any]:
    names = [f"field_{index}" for index in range(chance.randint(1, 4))]
    properties = {name: _value(chance, depth + 1) for name in names}
    return {
        "type": "object",
        "properties": properties,
        "required": chance.sample(names, chance.randint(1, len(names))),
        "additionalProperties": False,
    }


def _value(chance: random.Random, depth: int) -> dict[str, Any]:
    makers = [_string, _integer, _number, _enum, _plain, _choice]
    if depth < MAX_DEPTH:
        makers += [_array, _object]
    return chance.choice(makers)(chance, depth)


def _string(chance: random.Random, depth: int) -> dict[str, Any]:
    if chance.random() < 0.3:
        return {"type": "string", "pattern": "^[a-z]{2,5}-[0-9]{1,3}$"}
    if chance.random() < 0.3:
        return {"type": "string", "format": chance.choice(["date", "ipv4", "uuid"])}
    return {"type": "string", "minLength": chance.randint(0, 3), "maxLength": chance.randint(3, 12)}


def _integer(chance: random.Random, depth: int) -> dict[str, Any]:
    least = chance.randint(-500, 500)
    return {"type": "integer", "minimum": least, "maximum": least + chance.randint(0, 5000)}


def _number(chance: random.Random, depth: int) -> dict[str, Any]:
    least = chance.randint(-9, 9)
    return {"type": "number", "minimum": least, "exclusiveMaximum": least + 0.5}


def _enum(chance: random.Random, depth: int) -> dict[str, Any]:
    return {"enum": chance.sample(["red", "gr\u00fcn", 'a "quoted" one', 3, None, True], 3)}


def _plain(chance: random.Random, depth: int) -> dict[str, Any]:
    return {"type": chance.choice(["boolean", "null"])}


def _choice(chance: random.Random, depth: int) -> dict[str, Any]:
    return {"anyOf": [_integer(chance, depth), {"const": "none"}]}


def _array(chance: random.Random, depth: int) -> dict[str, Any]:
    least = chance.randint(0, 2)
    items = _value(chance, depth + 1)
    return {"type": "array", "items": items, "minItems": least, "maxItems": least + 2}
