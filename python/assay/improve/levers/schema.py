"""The format of lever files: which keys a lever has, and what their values must be.

format: assay.levers/1
engine: vllm
levers:
  - name: cuda-graphs
    mechanism: one launch replays all kernels of a step
    knobs: {enforce_eager: [false]}
    ...
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from assay.errors import AssayError, InputError, unknown_name
from assay.improve.levers import predicates
from assay.improve.levers.lever import CORRECTNESS, RISKIER, SAFETY, KnobRange, Lever
from assay.load.workloads.measurement import Setting

FORMAT: Final = "assay.levers/1"
MAX_LEVERS: Final = 500
MAX_VALUES: Final = 64

KEYS: Final[Mapping[str, str]] = {
    "name": "unique in its engine: lower case, digits, dots and dashes",
    "mechanism": "one sentence: how it saves time",
    "knobs": "knob: values in the order of trying; a value of = and an expression is computed",
    "applies": "expressions that must all hold",
    "addresses": "causes and waterfall terms that it reduces",
    "changes": "what-if changes that describe it to the replay; {KNOB} stands for the value tried",
    "safety": f"what can go wrong: {', '.join(SAFETY)}",
    "hot": "whether its knobs change while the engine runs",
    "correctness": f"what it may do to outputs: {', '.join(CORRECTNESS)}",
    "memory": "whether its gain depends on how much memory there is; false if not given",
    "riskier": f"knob: which values need more memory: {', '.join(RISKIER)}",
    "reference": "documentation, paper or design page",
}
"""The keys of a lever, and what they mean."""
REQUIRED: Final = ("name", "mechanism", "knobs", "safety", "hot", "correctness", "reference")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_KNOB: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,79}")
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]{0,79})\}")


def levers_of(data: Any, source: str) -> list[Lever]:
    """The levers of a file's content; `source` names it in errors."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        got = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise InputError(f"{source}: expected format: {FORMAT}, got {got}")
    _keys(data, ("format", "engine", "levers"), ("format", "engine", "levers"), source)
    engine = _text(data["engine"], f"{source}: engine")
    rows = data["levers"]
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{source}: levers: expected a list of levers, got {_shown(rows)}")
    if len(rows) > MAX_LEVERS:
        raise InputError(f"{source}: levers: expected at most {MAX_LEVERS}, got {len(rows)}")
    levers: dict[str, Lever] = {}
    for number, row in enumerate(rows, 1):
        lever = _lever(row, engine, source, number)
        if lever.name in levers:
            raise InputError(f"{source}: lever {lever.name}: expected each name once, got it twice")
        levers[lever.name] = lever
    return list(levers.values())


def _lever(row: Any, engine: str, source: str, number: int) -> Lever:
    where = f"{source}: lever {number}"
    if not isinstance(row, dict):
        raise InputError(f"{where}: expected keys such as name and knobs, got {_shown(row)}")
    name = row.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f"{where}: name: expected {KEYS['name']}, got {_shown(name)}")
    where = f"{source}: lever {name}"
    _keys(row, REQUIRED, tuple(KEYS), where)
    riskier = _mapping(row.get("riskier") or {}, f"{where}: riskier")
    knobs = _knobs(row["knobs"], riskier, where)
    hot = row["hot"]
    if not isinstance(hot, bool):
        raise InputError(f"{where}: hot: expected true or false, got {_shown(hot)}")
    memory = row.get("memory", False)
    if not isinstance(memory, bool):
        raise InputError(f"{where}: memory: expected true or false, got {_shown(memory)}")
    applies = _texts(row.get("applies"), f"{where}: applies")
    for text in applies:
        _known_names(predicates.parse(text, f"{where}: applies"), where)
    addresses = _texts(row.get("addresses"), f"{where}: addresses")
    for address in addresses:
        if address not in _causes_and_terms():
            raise _at(
                f"{where}: addresses", unknown_name("cause or term", address, _causes_and_terms())
            )
    changes = _texts(row.get("changes"), f"{where}: changes")
    _check_changes(changes, knobs, where)
    return Lever(
        name=name,
        engine=engine,
        mechanism=_text(row["mechanism"], f"{where}: mechanism"),
        knobs=knobs,
        applies=applies,
        addresses=addresses,
        changes=changes,
        safety=_one_of(row["safety"], SAFETY, f"{where}: safety"),
        hot=hot,
        correctness=_one_of(row["correctness"], CORRECTNESS, f"{where}: correctness"),
        memory=memory,
        reference=_text(row["reference"], f"{where}: reference"),
        source=source,
    )


def _knobs(given: Any, riskier: Mapping[str, Any], where: str) -> tuple[KnobRange, ...]:
    rows = _mapping(given, f"{where}: knobs")
    if not rows:
        raise InputError(f"{where}: knobs: expected a knob and its values, got none")
    ranges = []
    for knob, values in rows.items():
        place = f"{where}: knobs: {knob}"
        if not _KNOB.fullmatch(knob):
            raise InputError(f"{place}: expected the name of a knob")
        if not isinstance(values, list) or not 1 <= len(values) <= MAX_VALUES:
            raise InputError(f"{place}: expected 1 to {MAX_VALUES} values, got {_shown(values)}")
        direction = riskier.get(knob)
        if direction is not None:
            _one_of(direction, RISKIER, f"{where}: riskier: {knob}")
        ranges.append(KnobRange(knob, tuple(_value(value, place) for value in values), direction))
    for knob in riskier:
        if knob not in rows:
            raise _at(f"{where}: riskier", unknown_name("knob", knob, rows))
    counts = {len(knob_range.values) for knob_range in ranges} - {1}
    if len(counts) > 1:
        raise InputError(
            f"{where}: knobs: expected as many values of each knob, got "
            f"{', '.join(str(len(knob_range.values)) for knob_range in ranges)}",
            "values of several knobs go together: the first of each, the second of each",
        )
    return tuple(ranges)


def _value(value: Any, where: str) -> Setting:
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise InputError(
            f"{where}: expected a number, word, true, false or null, got {_shown(value)}"
        )
    if isinstance(value, str) and value.startswith("="):
        _known_names(predicates.parse(value[1:], where), where)
    checked: Setting = value
    return checked


def _known_names(expression: predicates.Expression, where: str) -> None:
    """Refuse causes and terms that no diagnosis has."""
    for function, known in (("cause", _causes()), ("term", _terms())):
        for name in expression.names(function):
            if name not in known:
                raise _at(f"{where}: {expression.text}", unknown_name(function, name, known))


def _check_changes(changes: Sequence[str], knobs: Sequence[KnobRange], where: str) -> None:
    """Refuse what-if changes that the replay does not know."""
    from assay.diagnose.replay.changes import parse

    names = [knob.knob for knob in knobs]
    for text in changes:
        for name in _PLACEHOLDER.findall(text):
            if name not in names:
                raise _at(f"{where}: changes: {text}", unknown_name("knob", name, names))
        if "{" in text:
            continue  # The value is known when the lever is tried.
        try:
            parse(text)
        except AssayError as error:
            raise _at(f"{where}: changes", error) from None


def filled(change: str, values: Mapping[str, Setting]) -> str:
    """A what-if change with the values that are tried.

    >>> filled("kv={kv_format}", {"kv_format": "bf16"})
    'kv=bf16'
    """
    return _PLACEHOLDER.sub(lambda placeholder: str(values[placeholder.group(1)]), change)


def _causes() -> tuple[str, ...]:
    from assay.diagnose.mechanisms.catalog import MECHANISMS

    return tuple(mechanism.name for mechanism in MECHANISMS)


def _terms() -> tuple[str, ...]:
    from assay.diagnose.terms import TERMS

    return tuple(TERMS)


def _causes_and_terms() -> tuple[str, ...]:
    return (*_causes(), *_terms())


def _keys(
    row: Mapping[str, Any], required: Sequence[str], known: Sequence[str], where: str
) -> None:
    for name in row:
        if name not in known:
            raise _at(where, unknown_name("key", name, known))
    lacking = [name for name in required if row.get(name) is None]
    if lacking:
        raise InputError(f"{where}: expected {', '.join(required)}, {', '.join(lacking)} missing")


def _texts(value: Any, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list, got {_shown(value)}")
    return tuple(_text(text, where) for text in value)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: expected a text, got {_shown(value)}")
    return " ".join(value.split())


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected knob: value, got {_shown(value)}")
    return value


def _one_of(value: Any, known: Sequence[Any], where: str) -> Any:
    if value not in known:
        raise InputError(f"{where}: expected one of {', '.join(known)}, got {_shown(value)}")
    return value


def _at(where: str, error: AssayError) -> InputError:
    return InputError(f"{where}: {error.message}", error.hint)


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
