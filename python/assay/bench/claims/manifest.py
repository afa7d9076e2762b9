"""The data sets of claims with their hashes: built once, held against what is here later."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from assay import json_records, paths
from assay.bench.claims import staging
from assay.bench.claims.claim import Claim
from assay.bench.claims.reading import claim_named, claim_of_result
from assay.bench.claims.suites import workload_of
from assay.errors import InputError
from assay.files import read_json
from assay.workloads.contract import ArrayWorkload
from assay.workloads.registry import WORKLOADS, workload as workload_named

SCHEMA: Final = "assay.manifest/1"
STAGED: Final = "staged"
GENERATED: Final = "generated"
BY_SUITE: Final = "made by the suite"
INTACT, ALTERED, MISSING = "intact", "altered", "missing"


@dataclass(frozen=True, slots=True)
class Entry:
    """A data set of a claim."""

    claim: str
    source: str
    """staged, generated, or made by the suite, whose inputs have no file and no hash."""
    generator: str
    """The workload or suite, or where the file came from."""
    seed: int | None
    size: int | None
    """Units of work."""
    sha256: str | None
    nbytes: int | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a data set."""

    entry: Entry
    status: str
    reason: str


def build(
    claims: Sequence[Claim], budget_bytes: int, say: Callable[[str], None]
) -> tuple[list[Entry], list[staging.Eviction]]:
    """Stage and hash the data of claims; what does not fit into the budget goes, oldest first."""
    entries: list[Entry] = []
    for claim in claims:
        # Once it is done: an error is a line of its own, without one of progress before it.
        entries += _entries(claim, budget_bytes)
        say(claim.name)
    return entries, list(staging.evict(budget_bytes))


def _entries(claim: Claim, budget_bytes: int) -> list[Entry]:
    data = claim.data
    if data.file:
        kept = staging.stage(claim, budget_bytes)
        return [Entry(claim.name, STAGED, data.file, None, data.units, kept.sha256, kept.nbytes)]
    workload = workload_of(claim)
    if workload is None:
        return [
            Entry(claim.name, BY_SUITE, data.generator, seed, None, None, None)
            for seed in data.seeds
        ]
    size = data.size or workload.sizes.usual
    entries = []
    for seed in data.seeds:
        made = workload.generate(seed, size)
        nbytes = sum(array.nbytes for array in made.arrays.values())
        # A claim that brings its work along is found by its file.
        generator = claim.suite if claim.work is None else str(claim.path)
        entries.append(Entry(claim.name, GENERATED, generator, seed, size, made.sha256, nbytes))
    return entries


def save(entries: Sequence[Entry], path: Path) -> None:
    """Write a manifest, one data set a line."""
    data = {"schema": SCHEMA, "data_sets": [asdict(entry) for entry in entries]}
    paths.write_atomically(path, f"{json_records.dumps(data, depth=2)}\n".encode())


def load(path: Path) -> list[Entry]:
    """Read a manifest; raises `InputError` for anything else."""
    data = read_json("manifest", path)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        got = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise InputError(
            f"{path}: expected a manifest of schema {SCHEMA}, got {json.dumps(got)}",
            "assay bench manifest build writes one",
        )
    try:
        return [_entry(entry) for entry in data["data_sets"]]
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: expected data_sets, got {error}") from None


def _entry(data: Mapping[str, Any]) -> Entry:
    entry = Entry(**{name: data[name] for name in Entry.__dataclass_fields__})
    for names, kind in ((("claim", "source", "generator"), str), (("seed", "size"), int | None)):
        for name in names:
            if not isinstance(value := getattr(entry, name), kind):
                raise TypeError(f"{name} {value!r}")
    return entry


def verify(entries: Sequence[Entry], claims: Sequence[Claim] = ()) -> list[Verdict]:
    """Hash every data set again, and generate again what a generator made.

    Generators of one's own are those of `claims`, or of claims in `bench/claims`.
    """
    # All before the first one runs: of a manifest that is refused, nothing does.
    generators = [_generator(entry, claims) for entry in entries]
    return [_verified(entry, made_by) for entry, made_by in zip(entries, generators, strict=True)]


def _generator(entry: Entry, claims: Sequence[Claim]) -> ArrayWorkload | None:
    """What makes a data set again: never the file that a manifest names, which others may have written."""
    if entry.source != GENERATED:
        return None
    if entry.generator in WORKLOADS:
        return workload_named(entry.generator)
    given = {claim.name: claim for claim in claims}
    claim = given.get(entry.claim) or claim_of_result(entry.claim)
    if claim is None:
        raise InputError(
            f"the claim {entry.claim}: expected its bench.toml in bench/claims, got none",
            "its generator is code, and what a manifest names is not run: assay bench manifest verify FILE "
            "names its bench.toml",
        )
    return workload_of(claim)


def _verified(entry: Entry, workload: ArrayWorkload | None) -> Verdict:
    if entry.source == BY_SUITE:
        return Verdict(entry, INTACT, "made anew in every run")
    if entry.source == GENERATED:
        if workload is None:
            return Verdict(entry, MISSING, f"{entry.generator} generates nothing")
        made = workload.generate(entry.seed or 0, entry.size or 1)
        return _compared(entry, made.sha256, "generated again")
    path = staging.folder() / str(entry.sha256)
    if not path.is_file():
        return Verdict(entry, MISSING, "not staged: assay bench manifest build CLAIM")
    return _compared(entry, staging.digest(path), "hashed again")


def _compared(entry: Entry, got: str, how: str) -> Verdict:
    if got == entry.sha256:
        return Verdict(entry, INTACT, how)
    return Verdict(entry, ALTERED, f"sha256 is {got[:12]}..., not {str(entry.sha256)[:12]}...")


def claims_of(names: Sequence[str]) -> list[Claim]:
    """The claims of these names, each of which must be one with data."""
    claims = [claim_named(name) for name in names]
    for claim in claims:
        if claim.path is None:
            raise InputError(
                f"{claim.name}: expected a claim with a bench.toml, got a suite",
                "bench/claims has those of the suites",
            )
    return claims
