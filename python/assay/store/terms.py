"""The terms of `assay store find`, `pull --where` and `gc --where`: `model=llama`, `since=7d`, a word."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, get_args

from assay.errors import InputError, unknown_name
from assay.improve.loop.outcome import RunVerdict
from assay.load.workloads.spec import parse_duration
from assay.report.fleet import FleetVerdict
from assay.store.index import catalog_name
from assay.store.manifest import KINDS, TAXONOMY

TERMS: Final = ("kind", "name", *TAXONOMY, "verdict", "tag", "since", "until", "sha256", "manifest")
VERDICTS: Final = tuple(dict.fromkeys((*get_args(RunVerdict), *get_args(FleetVerdict))))
_BY_TAG: Final = "(kind, name) IN (SELECT kind, name FROM tags WHERE tag = ?)"
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9a-f]{4,64}")
_OTHER_SIGN: Final = re.compile(rf"({'|'.join(TERMS)})\s*([~!<>:]+=?)\s*(.*)")
"""A term with the sign of another language."""


class Term(NamedTuple):
    """A condition on items, in the words of who asks and in those of the index."""

    name: str
    """Of `TERMS`, or `any`."""
    text: str
    written: str
    condition: str
    values: list[Any]


def read_terms(texts: Sequence[str]) -> list[Term]:
    """Terms as they are written; all must hold."""
    return [_read(text) for text in texts]


def _read(term: str) -> Term:
    if other := _OTHER_SIGN.fullmatch(term):
        name, sign, text = other.groups()
        raise InputError(
            f'term "{term}": expected {name}=TEXT or {name}==TEXT, got the sign "{sign}"',
            _instead(name, sign, text),
        )
    name, sign, text = term.partition("=")
    is_exact, text = text.startswith("="), text.removeprefix("=")
    if not sign:
        name, text = "any", term
    elif name not in TERMS:
        raise unknown_name("term", name, TERMS)
    if not text:
        raise InputError(f'term "{term}": expected NAME=TEXT, got no text')
    return Term(name, text, term, *_condition(name, text, is_exact))


def _instead(name: str, sign: str, text: str) -> str:
    if name in ("since", "until"):
        return "since=2026-11-01 and until=2026-11-01 have that day too"
    if "!" in sign:
        return "a term says what items are, not what they are not"
    return f"did you mean {name}={text or 'TEXT'}?"


def _condition(name: str, text: str, is_exact: bool) -> tuple[str, list[Any]]:
    if name == "any":
        columns = ("name", *TAXONOMY, "catalog_accelerator")
        alternatives = " OR ".join(f"{column} LIKE ? ESCAPE '\\'" for column in columns)
        return f"({alternatives} OR {_BY_TAG})", [_pattern(text)] * len(columns) + [text]
    if name == "kind":
        if text not in KINDS:
            raise unknown_name("kind", text, KINDS)
        return "kind = ?", [text]
    if name == "tag":
        return _BY_TAG, [text]
    if name in ("since", "until"):
        return f"created_at {'>=' if name == 'since' else '<'} ?", [_time(name, text)]
    if name in ("sha256", "manifest"):
        return _digest(name, text)
    if name == "verdict":
        _check_verdict(text, is_exact)
    condition = f"{name} = ? COLLATE NOCASE" if is_exact else f"{name} LIKE ? ESCAPE '\\'"
    values: list[Any] = [text if is_exact else _pattern(text)]
    if name == "accelerator":
        # Devices call themselves otherwise than the catalog, whose names and aliases other commands take.
        catalog = condition.replace("accelerator", "catalog_accelerator")
        condition = f"({condition} OR {catalog} OR catalog_accelerator = ?)"
        values = [*values, *values, catalog_name(text)]
    return condition, values


def _digest(name: str, text: str) -> tuple[str, list[Any]]:
    if not _DIGITS.fullmatch(text):
        raise InputError(f"{name}: expected 4 to 64 hexadecimal digits, got {text!r}")
    # A range, so that the start of a hash is found by the index.
    span = [text, text + "g"]
    if name == "manifest":
        return "manifest >= ? AND manifest < ?", span
    return "id IN (SELECT item FROM files WHERE sha256 >= ? AND sha256 < ?)", span


def _check_verdict(text: str, is_exact: bool) -> None:
    """A verdict that no run can have is a mistake, not an empty answer."""
    asked = text.casefold()
    if not any(asked == verdict if is_exact else asked in verdict for verdict in VERDICTS):
        raise unknown_name("verdict", text, VERDICTS, f"one of: {', '.join(VERDICTS)}")


def _pattern(text: str) -> str:
    return "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"


def _time(name: str, text: str) -> float:
    """A date, a time, or so long ago; without a zone in UTC. Until a date is until that day ends.

    >>> _time("since", "1970-01-02"), _time("until", "1970-01-02")
    (86400.0, 172800.0)
    """
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        try:
            ago_s = parse_duration(name, text)
        except InputError:
            raise InputError(
                f"{name}: expected a date such as 2026-11-01, or a time ago such as 7d or 90m, "
                f"got {text!r}"
            ) from None
        return time.time() - ago_s
    if name == "until" and _DATE.fullmatch(text):
        when += timedelta(days=1)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
