"""Reads `bench.toml`: unknown keys and wrong values are refused with their place."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from assay.bench.claims import reading_work
from assay.bench.claims.claim import (
    BEST_RIVAL,
    SEEDS,
    Claim,
    ClaimData,
    ClaimRun,
    Gates,
    Rivals,
    Target,
)
from assay.bench.claims.tables import known_keys, table
from assay.bench.harness.case import UNITS
from assay.bench.harness.seeding import FIRST_UNSEEN
from assay.bench.harness.selection import MOST_EXTENT
from assay.bench.suites.registry import SUITES
from assay.errors import InputError, unknown_name
from assay.files import read_toml
from assay.workloads.registry import WORKLOADS

FILE: Final = "bench.toml"
FOLDER: Final = Path("bench") / "claims"
_HASH_DIGITS: Final = 64
_TEXTS: Final = ("name", "about", "suite", "unit", "metric")


def find_claim(text: str) -> Claim | None:
    """The claim of a file, of a folder with one, or of a name in `bench/claims`; None of a suite.

    Claims are looked for in the folder one works in, and in the checkout of these sources.
    """
    path = Path(text)
    if (path / FILE).is_file():
        return read_claim(path / FILE)
    if path.suffix == ".toml":
        return read_claim(path)
    claim = _in_folders(text)
    if claim is None and path.is_dir() and text not in (*SUITES, *WORKLOADS):
        raise InputError(
            f"{path}: expected a claim, {FILE}, in this folder, got none",
            "docs/guides/claims.md has an example",
        )
    return claim


def claim_of_result(name: str) -> Claim | None:
    """The claim of a name that a result or manifest has: in `bench/claims` and nowhere else, whatever it is.

    These come from others, and a claim runs the code that it names.
    """
    is_plain = name == Path(name).name and name != ".."
    return _in_folders(name) if is_plain else None


def _in_folders(name: str) -> Claim | None:
    for folder in folders():
        if (folder / name / FILE).is_file():
            return read_claim(folder / name / FILE)
    return None


def claim_named(text: str) -> Claim:
    """The same, where a claim is needed: a suite without one makes its own."""
    claim = find_claim(text)
    if claim is not None:
        return claim
    if text in SUITES or text in WORKLOADS:
        return Claim(text, f"the suite {text}", text, "", "", ClaimData(generator=text))
    raise unknown_name(
        "suite or claim", text, (*claim_names(), *SUITES, *WORKLOADS), "assay bench list has them"
    )


def as_typed(claim: Claim) -> str:
    """A claim as commands take it: by its name where it is in `bench/claims`, else by its folder or file."""
    if claim.path is None:
        return claim.name
    folder = claim.path.parent
    if folder.parent in folders():
        return folder.name
    return str(folder if claim.path.name == FILE else claim.path)


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
    known = {field.name for field in dataclasses.fields(Claim)} - {"path"}
    known_keys(path, "", raw, known | {"workload", "reference"})
    kinds = [name for name in ("suite", "workload", "work") if name in raw]
    if len(kinds) != 1:
        raise InputError(
            f"{path}: expected one of suite, workload and [work], got {' and '.join(kinds) or 'none'}",
            'suite = "gemm", workload = "order-book", or [work] with a function or command of your own',
        )
    if "work" in raw:
        return _own(path, raw)
    if "reference" in raw:
        raise InputError(f"{path}: reference: expected it beside [work], got it of a {kinds[0]}")
    offered = tuple(WORKLOADS) if "workload" in raw else SUITES
    raw = {**raw, "suite": raw.pop("workload", raw.get("suite"))}
    _check_texts(path, raw)
    if raw["suite"] not in offered:
        unknown = unknown_name("suite or workload", raw["suite"], offered)
        raise InputError(f"{path}: {unknown.message}", unknown.hint)
    data = table(path, "data", raw.get("data", {}), ClaimData)
    _check_data(path, data)
    if data.generator not in ("", raw["suite"]):
        raise InputError(
            f'{path}: data.generator: expected "{raw["suite"]}", which makes the data of this claim, '
            f'got "{data.generator}"'
        )
    for metric in raw["metric"].split(", "):
        if metric not in UNITS:
            unknown = unknown_name("metric", metric, UNITS)
            raise InputError(f"{path}: {unknown.message}", unknown.hint)
    return Claim(
        **{name: raw[name] for name in _TEXTS},
        data=data,
        run=table(path, "run", raw.get("run", {}), ClaimRun),
        rivals=table(path, "rivals", raw.get("rivals", {}), Rivals),
        gates=_gates(path, raw.get("gates", {})),
        path=path,
    )


def _own(path: Path, raw: dict[str, Any]) -> Claim:
    """A claim that brings its work along; its name is that of its results."""
    raw = {**raw, "suite": raw.get("name")}
    _check_texts(path, raw)
    if raw["name"] in (*SUITES, *WORKLOADS):
        raise InputError(
            f"{path}: name: expected another than that of a suite, got {raw['name']!r}"
        )
    work, rivals = reading_work.read_work(path, raw)
    data = table(path, "data", raw.get("data", {}), ClaimData)
    _check_data(path, data, is_own=True)
    reading_work.check_metric(path, raw["unit"], raw["metric"], work)
    reading_work.check_placeholders(path, work, data)
    run = table(path, "run", raw.get("run", {}), ClaimRun)
    for name in ("dtypes", "model", "settings"):
        if getattr(run, name):
            raise InputError(f"{path}: run.{name}: expected none beside [work], which has no such")
    if run.sizes and data.size is None:
        raise InputError(
            f"{path}: run.sizes: expected data.size beside it, which calls are told, got none"
        )
    gates = _gates(path, raw.get("gates", {}))
    check_targets(f"{path}: ", gates, rivals.names)
    return Claim(
        **{name: raw[name] for name in _TEXTS},
        data=data,
        run=run,
        rivals=rivals,
        gates=gates,
        work=work,
        path=path,
    )


def check_targets(where: str, gates: Gates, rivals: Sequence[str]) -> None:
    """Refuse a target over a rival that there is not, before anything is measured."""
    offered = (BEST_RIVAL, *rivals)
    for place, target in enumerate(gates.target):
        if target.over and not rivals:
            raise InputError(
                f"{where}gates.target[{place}].over: expected a rival in the claim, got none"
            )
        if target.over and target.over not in offered:
            unknown = unknown_name("rival", target.over, offered)
            raise InputError(f"{where}gates.target[{place}].over: {unknown.message}", unknown.hint)


def _check_texts(path: Path, raw: Mapping[str, Any]) -> None:
    for name in _TEXTS:
        if not isinstance(raw.get(name), str) or not raw[name]:
            raise InputError(
                f"{path}: {name}: expected a text, got {repr(raw[name]) if name in raw else 'none'}",
                "docs/guides/claims.md has an example",
            )


def _gates(path: Path, raw: Any) -> Gates:
    gates = dict(raw) if isinstance(raw, dict) else {}
    targets = gates.pop("target", [])
    if not isinstance(targets, list):
        raise InputError(f"{path}: gates.target: expected [[gates.target]], got {targets!r}")
    judged = dataclasses.replace(
        table(path, "gates", gates, Gates),
        target=tuple(
            _target(path, f"gates.target[{place}]", target) for place, target in enumerate(targets)
        ),
    )
    _check_gates(path, judged)
    return judged


def _check_data(path: Path, data: ClaimData, *, is_own: bool = False) -> None:
    if not data.generator and not data.file and not is_own:
        raise InputError(
            f"{path}: data: expected a generator with seeds, or a file with its sha256, got neither",
            'data = { generator = "gemm", seeds = [1, 2, 3] }',
        )
    if (data.generator or not data.file) and len(data.seeds) < SEEDS:
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
    if not data.file and data.sha256 and len(data.sha256) != len(data.seeds):
        raise InputError(
            f"{path}: data.sha256: expected one for each of {len(data.seeds)} seeds, got "
            f"{len(data.sha256)}"
        )
    for digest in data.sha256:
        if len(digest) != _HASH_DIGITS or not set(digest) <= set("0123456789abcdef"):
            raise InputError(f"{path}: data.sha256: expected 64 hexadecimal digits, got {digest!r}")
    if len(set(data.seeds)) != len(data.seeds) or any(seed < 0 for seed in data.seeds):
        raise InputError(
            f"{path}: data.seeds: expected different numbers, none below 0, got {list(data.seeds)}"
        )
    if any(seed >= FIRST_UNSEEN for seed in data.seeds):
        raise InputError(
            f"{path}: data.seeds: expected numbers below {FIRST_UNSEEN:,}, got {max(data.seeds):,}",
            "those beyond are of data that programs must not have seen when they are checked",
        )
    if data.units is not None and data.units < 1:
        raise InputError(f"{path}: data.units: expected at least 1, got {data.units}")
    if data.size is not None and not 1 <= data.size <= MOST_EXTENT:
        raise InputError(f"{path}: data.size: expected 1 to {MOST_EXTENT:,}, got {data.size:,}")


def _check_gates(path: Path, gates: Gates) -> None:
    if gates.seeds < SEEDS:
        raise InputError(f"{path}: gates.seeds: expected at least {SEEDS}, got {gates.seeds}")
    for name in ("spread", "regression", "saturation"):
        share = getattr(gates, name)
        if share is not None and not 0.0 <= share <= 1.0:
            raise InputError(f"{path}: gates.{name}: expected a share from 0 to 1, got {share:g}")


def _target(path: Path, where: str, raw: Any) -> Target:
    target = table(path, where, raw, Target)
    if (target.at_least is None) == (target.at_most is None):
        raise InputError(f"{path}: {where}: expected at_least or at_most, got {raw!r}")
    name = "at_least" if target.at_most is None else "at_most"
    bar = getattr(target, name)
    if not 0.0 < bar < math.inf:
        raise InputError(f"{path}: {where}.{name}: expected a finite number above 0, got {bar:g}")
    return target
