"""The run of a kept result, prepared once more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from assay.bench.claims import reading
from assay.bench.claims.claim import Claim, ClaimData
from assay.bench.claims.running import Prepared
from assay.bench.claims.staging import stage
from assay.bench.claims.suites import has_sizes_of_its_own, suite_of, workload_of
from assay.bench.harness import selection, session
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
    claim = reading.find_claim(file) if file else reading.claim_of_result(then.suite)
    if claim is None:
        raise InputError(
            f"the claim {then.suite}: expected its bench.toml, got none in bench/claims",
            "--claim FILE says where it is: the result has what it says, not its programs",
        )
    check_measured(claim, then)
    return claim


def check_measured(claim: Claim, then: Result) -> None:
    """Refuse a result of other data, or of other work, than the claim has now."""
    kept = then.claim or {}
    is_own = claim.work is not None or kept.get("work") is not None
    if claim.path is None or not (kept or is_own):
        return
    now = json.loads(json.dumps(claim.to_data()))
    for part in _MEASURED if is_own else ("data",):
        _check_same(f"{claim.path}: {part}", kept.get(part), now[part])


def check_asked(claim: Claim, then: Result) -> None:
    """Refuse a result that is none of the claim: of other data, or of options in place of the claim's.

    Of a smoke test, and of a file from before options were kept, data are all that is known.
    """
    check_measured(claim, then)
    asked = then.options
    if asked is None or then.quick:
        return
    suite, run, size = suite_of(claim), claim.run, claim.data.size
    workload = workload_of(claim)
    is_on_gpu = str(asked.get("device")).partition(":")[0] != "cpu"
    if claim.data.file or (workload is not None and workload.gpu_cases and is_on_gpu):
        size = None
    sizes = selection.sizes(suite, run.sizes or (None if size is None else str(size)))
    dtypes = selection.dtypes(suite, run.dtypes)
    said = session.kept_options(
        sizes=sizes,
        dtypes=dtypes,
        model=run.model,
        # None are all that there are.
        rivals=sorted(claim.rivals.names or suite.rivals),
        cases=run.cases,
        settings=run.settings,
    )
    rivals = asked.get("rivals") or suite.rivals
    kept = {
        **asked,
        "rivals": sorted(map(str, rivals)) if isinstance(rivals, (list, tuple)) else rivals,
    }
    for name, value in said.items():
        _check_same(f"the claim {claim.name}: {name}", kept.get(name), value)


def _check_same(where: str, measured: Any, said: Any) -> None:
    if measured != said:
        raise InputError(
            f"{where}: expected what was measured, {measured}, got {said}",
            "measure the claim as it is now",
        )


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
    if sizes is None and settings.sizes and has_sizes_of_its_own(claim, settings.device):
        settings = replace(settings, sizes=())
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
