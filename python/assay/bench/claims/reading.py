"""Reads `bench.toml`: unknown keys and wrong values are refused with their place."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from assay.bench.claims.claim import SEEDS, Claim, ClaimData, ClaimRun, Gates, Rivals, Target
from assay.bench.suites.registry import SUITES
from assay.errors import InputError, unknown_name
from assay.files import read_toml
from assay.workloads.registry import WORKLOADS

FILE: Final = "bench.toml"
FOLDER: Final = Path("bench") / "claims"
_HASH_DIGITS: Final = 64
_TEXTS: Final = ("name", "about", "suite", "unit", "metric")
Table = TypeVar("Table", ClaimData, ClaimRun, Rivals, Gates, Target)


def find_claim(text: str) -> Claim | None:
    """The claim of a file, of a folder with one, or of a name in `bench/claims`; None of a suite.

    Claims are looked for in the folder one works in, and in the checkout of these sources.
    """
    path = Path(text)
    if (path / FILE).is_file():
        return read_claim(path / FILE)
    if path.suffix == ".toml":
        return read_claim(path)
    for folder in folders():
        if (folder / text / FILE).is_file():
            return read_claim(folder / text / FILE)
    return None


def claim_named(text: str) -> Claim:
    """The same, where a claim is needed: a suite without one makes its own."""
    claim = find_claim(text)
    if claim is not None:
        return claim
    if text in SUITES or text in WORKLOADS:
        return Claim(text, f"the suite {text}", text, "", "", ClaimData(generator=text))
    raise unknown_name(
        "suite or claim",
        text,
        (*claim_names(), *SUITES, *WORKLOADS),
        "assay bench run --help lists them",
    )


def folders() -> list[Path]:
    """Where claims are, nearest first."""
    checkout = Path(__file__).resolve().parents[4] / FOLDER
    return [folder for folder in dict.fromkeys([FOLDER.absolute(), checkout]) if folder.is_dir()]


def claim_names() -> list[str]:
    """The names of the claims that are there."""
    return sorted({path.parent.name for folder in folders() for path in folder.glob(f"*/{FILE}")})


def read_claim(path: Path) -> Claim:
    """Read a claim; raises `InputError` for anything else."""
    raw = read_toml("claim", path)
    known = {field.name for field in dataclasses.fields(Claim)} - {"path"} | {"workload"}
    _known(path, "", raw, known)
    if ("suite" in raw) == ("workload" in raw):
        raise InputError(
            f"{path}: expected either suite or workload, got {'both' if 'suite' in raw else 'none'}",
            'suite = "gemm", or workload = "order-book"',
        )
    offered = tuple(WORKLOADS) if "workload" in raw else SUITES
    raw = {**raw, "suite": raw.pop("workload", raw.get("suite"))}
    for name in _TEXTS:
        if not isinstance(raw.get(name), str) or not raw[name]:
            raise InputError(
                f"{path}: {name}: expected a text, got {raw.get(name, 'nothing')!r}",
                "docs/guides/claims.md has an example",
            )
    if raw["suite"] not in offered:
        unknown = unknown_name("suite or workload", raw["suite"], offered)
        raise InputError(f"{path}: {unknown.message}", unknown.hint)
    data = _table(path, "data", raw.get("data", {}), ClaimData)
    _check_data(path, data)
    gates = dict(raw.get("gates", {})) if isinstance(raw.get("gates", {}), dict) else {}
    targets = gates.pop("target", [])
    if not isinstance(targets, list):
        raise InputError(f"{path}: gates.target: expected [[gates.target]], got {targets!r}")
    judged = dataclasses.replace(
        _table(path, "gates", gates, Gates),
        target=tuple(
            _target(path, f"gates.target[{place}]", target) for place, target in enumerate(targets)
        ),
    )
    _check_gates(path, judged)
    return Claim(
        **{name: raw[name] for name in _TEXTS},
        data=data,
        run=_table(path, "run", raw.get("run", {}), ClaimRun),
        rivals=_table(path, "rivals", raw.get("rivals", {}), Rivals),
        gates=judged,
        path=path,
    )


def _check_data(path: Path, data: ClaimData) -> None:
    if not data.generator and not data.file:
        raise InputError(
            f"{path}: data: expected a generator with seeds, or a file with its sha256, got neither",
            'data = { generator = "gemm", seeds = [1, 2, 3] }',
        )
    if data.generator and len(data.seeds) < SEEDS:
        got = len(data.seeds) or "none"
        raise InputError(
            f"{path}: data.seeds: expected at least {SEEDS} seeds, got {got}", "seeds = [1, 2, 3]"
        )
    if data.file and (len(data.sha256) != 1 or data.units is None):
        raise InputError(
            f"{path}: data.file: expected it with one sha256 and its units, got "
            f"{len(data.sha256)} hashes and units {data.units}",
            "assay bench manifest build prints hashes",
        )
    if data.generator and data.sha256 and len(data.sha256) != len(data.seeds):
        raise InputError(
            f"{path}: data.sha256: expected one for each of {len(data.seeds)} seeds, got "
            f"{len(data.sha256)}"
        )
    for digest in data.sha256:
        if len(digest) != _HASH_DIGITS or not set(digest) <= set("0123456789abcdef"):
            raise InputError(f"{path}: data.sha256: expected 64 hexadecimal digits, got {digest!r}")
    if len(set(data.seeds)) != len(data.seeds) or any(seed < 0 for seed in data.seeds):
        raise InputError(f"{path}: data.seeds: expected different numbers, got {list(data.seeds)}")


def _check_gates(path: Path, gates: Gates) -> None:
    if gates.seeds < SEEDS:
        raise InputError(f"{path}: gates.seeds: expected at least {SEEDS}, got {gates.seeds}")
    for name in ("spread", "regression", "saturation"):
        share = getattr(gates, name)
        if share is not None and not 0.0 <= share <= 1.0:
            raise InputError(f"{path}: gates.{name}: expected a share from 0 to 1, got {share:g}")


def _target(path: Path, where: str, raw: Any) -> Target:
    target = _table(path, where, raw, Target)
    if (target.at_least is None) == (target.at_most is None):
        raise InputError(f"{path}: {where}: expected at_least or at_most, got {raw!r}")
    return target


def _table(path: Path, where: str, raw: Any, kind: type[Table]) -> Table:
    """A table of the file as a dataclass, each value of the type that the class states."""
    if not isinstance(raw, dict):
        raise InputError(f"{path}: {where}: expected a table, got {raw!r}")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    _known(path, where, raw, set(fields))
    values = {
        name: _value(f"{path}: {where}.{name}", value, str(fields[name].type))
        for name, value in raw.items()
    }
    return kind(**values)


def _known(path: Path, where: str, raw: Mapping[str, Any], known: set[str]) -> None:
    for name in raw:
        if name not in known:
            unknown = unknown_name("key", name, sorted(known))
            place = f"{where}: " if where else ""
            raise InputError(f"{path}: {place}{unknown.message}", unknown.hint)


def _value(where: str, value: Any, kind: str) -> Any:
    """The value as a field has it; tuples are lists in the file."""
    expected: dict[str, tuple[str, type | tuple[type, ...]]] = {
        "str": ("a text", str),
        "str | None": ("a text", str),
        "int": ("a whole number", int),
        "int | None": ("a whole number", int),
        "float": ("a number", (int, float)),
        "float | None": ("a number", (int, float)),
        "Mapping[str, Any]": ("a table", dict),
    }
    if kind in ("tuple[str, ...]", "tuple[int, ...]"):
        member = kind[6:9]
        values = value if isinstance(value, list) else [value]
        return tuple(_value(where, part, member) for part in values)
    words, types = expected[kind]
    if not isinstance(value, types) or isinstance(value, bool):
        raise InputError(f"{where}: expected {words}, got {value!r}")
    return value
