"""The run of a kept result, prepared once more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from assay.bench.claims import reading
from assay.bench.claims.claim import Claim, ClaimData
from assay.bench.claims.running import Prepared
from assay.bench.claims.staging import stage
from assay.bench.claims.suites import suite_of
from assay.bench.harness import session
from assay.bench.harness.result import Result
from assay.errors import InputError, unknown_name

_MEASURED: Final = ("work", "data", "unit", "metric")
"""Parts of a claim that decide what is measured."""


def claim_of(then: Result, file: str | None = None) -> Claim:
    """The claim of a result: of its suite, or the file that brings its work along."""
    if not (then.claim or {}).get("work"):
        if file is not None:
            raise InputError(
                f"--claim: expected none for a result of the suite {then.suite}, got {file}"
            )
        seeds = tuple((then.options or {}).get("seeds") or (0,))
        data = ClaimData(generator=then.suite, seeds=seeds)
        return Claim(then.suite, "", then.suite, "", "", data)
    claim = reading.find_claim(file or then.suite)
    if claim is None:
        raise InputError(
            f"the claim {then.suite}: expected its bench.toml, got none in bench/claims",
            "--claim FILE says where it is: the result has what it says, not its programs",
        )
    kept, now = then.claim or {}, json.loads(json.dumps(claim.to_data()))
    for part in _MEASURED:
        if kept.get(part) != now[part]:
            raise InputError(
                f"{claim.path}: {part}: expected what was measured, {kept.get(part)}, got {now[part]}"
            )
    return claim


def again(
    then: Result,
    claim: Claim,
    *,
    sizes: str | None = None,
    cases: Sequence[str] = (),
    rival_python: Path | None = None,
) -> Prepared:
    """Settings and seeds of a result; of an older file, as far as its figures name them."""
    asked = then.options or {}
    chosen = suite_of(claim)
    settings = session.settings(
        chosen,
        str(asked.get("device") or then.machine["device"]),
        quick=then.quick,
        sizes=sizes or asked.get("sizes"),
        dtypes=asked.get("dtypes"),
        model=asked.get("model"),
        rivals=asked.get("rivals") or (),
        rival_python=rival_python,
    )
    kept = [figure.name for figure in then.figures]
    for part in cases:
        if not any(part in name for name in kept):
            raise unknown_name("case", part, kept)
    if claim.data.file:
        settings = replace(settings, data=stage(claim).path, data_units=claim.data.units)
    offered = [case.name for case in chosen.cases(settings)]
    names = [
        name
        for name in kept
        if name in offered and (not cases or any(part in name for part in cases))
    ]
    if not names:
        raise InputError(
            f"the suite {then.suite}: expected a case of the file, such as {kept[0]!r}, got "
            f"{offered[0]!r} and {len(offered) - 1} others",
            "--sizes gives the sizes of a file from before files kept them",
        )
    settings = settings.of_cases(names, asked.get("settings") or {})
    seeds = tuple(asked.get("seeds") or (0,))
    return Prepared(claim, chosen, settings, seeds)
