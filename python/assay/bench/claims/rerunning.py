"""The run of a kept result, prepared once more."""

from __future__ import annotations

from collections.abc import Sequence

from assay.bench.claims.claim import Claim, ClaimData
from assay.bench.claims.running import Prepared
from assay.bench.harness import session
from assay.bench.harness.case import Suite
from assay.bench.harness.result import Result
from assay.errors import InputError, unknown_name


def again(
    then: Result, chosen: Suite, *, sizes: str | None = None, cases: Sequence[str] = ()
) -> Prepared:
    """Settings and seeds of a result; of an older file, as far as its figures name them."""
    asked = then.options or {}
    settings = session.settings(
        chosen,
        str(asked.get("device") or then.machine["device"]),
        quick=then.quick,
        sizes=sizes or asked.get("sizes"),
        dtypes=asked.get("dtypes"),
        model=asked.get("model"),
        rivals=asked.get("rivals") or (),
    )
    kept = [figure.name for figure in then.figures]
    for part in cases:
        if not any(part in name for name in kept):
            raise unknown_name("case", part, kept)
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
    claim = Claim(then.suite, "", then.suite, "", "", ClaimData(generator=then.suite, seeds=seeds))
    return Prepared(claim, chosen, settings, seeds)
