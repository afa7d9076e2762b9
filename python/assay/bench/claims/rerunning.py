"""The run of a kept result, prepared once more."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from assay.bench.claims import reading
from assay.bench.claims.claim import Claim, ClaimData, ClaimRun
from assay.bench.claims.files import with_file
from assay.bench.claims.running import Prepared
from assay.bench.claims.suites import has_sizes_of_its_own, suite_of, workload_of
from assay.bench.harness import selection, session
from assay.bench.harness.case import Suite
from assay.bench.harness.result import Result
from assay.errors import InputError, unknown_name

_MEASURED: Final = ("work", "data", "unit", "metric")
"""Parts of a claim that decide what is measured."""
_HASHED: Final = "sha256 "
"""What the versions of a result say of a file of the claim, before its hash."""


def claim_of(then: Result, file: str | None = None) -> Claim:
    """The claim of a result: of its suite, or the file that brings its work or data along."""
    kept = then.claim or {}
    data = kept.get("data")
    if not kept.get("work") and not (isinstance(data, dict) and data.get("file")):
        if file is not None:
            raise InputError(
                f"--claim: expected none for a result of the suite {then.suite}, got {file}"
            )
        asked = then.options or {}
        warm_up = asked.get("warm_up")
        return Claim(
            then.suite,
            "",
            then.suite,
            "",
            "",
            ClaimData(generator=then.suite, seeds=tuple(asked.get("seeds") or (0,))),
            # Older files do not say.
            ClaimRun(warm_up=warm_up if isinstance(warm_up, int) else 1),
        )
    name = then.suite if kept.get("work") else str(kept.get("name"))
    claim = reading.find_claim(file) if file else reading.claim_of_result(name)
    if claim is None:
        raise InputError(
            f"the claim {name}: expected its bench.toml, got none in bench/claims",
            "--claim FILE says where it is: the result has what it says, not its programs and data",
        )
    check_measured(claim, then)
    return claim


def check_code(claim: Claim, then: Result, file: Path, hint: str, *, is_judged: bool) -> None:
    """Refuse a result of other code than the files of a claim with its own work have now.

    One that is judged must say which code it is of; files from before hashes were kept do not.
    """
    if claim.work is None:
        return
    now = suite_of(claim).sources()
    measured = {
        name: version for name, version in then.versions.items() if str(version).startswith(_HASHED)
    }
    for name in {**now, **measured} if measured or is_judged else ():
        if now.get(name) != measured.get(name):
            raise InputError(
                f"{file} is of other code than {name} has now: expected {now.get(name, 'no such file')}, "
                f"got {measured.get(name, 'no hash')}",
                hint,
            )


def check_measured(claim: Claim, then: Result) -> None:
    """Refuse a result of other data, or of other work, than the claim has now."""
    kept = then.claim or {}
    is_own = claim.work is not None or kept.get("work") is not None
    if claim.path is None or not (kept or is_own or claim.data.file):
        return
    _check_same(claim, f"{claim.path}: suite", then.suite, claim.suite)
    now = json.loads(json.dumps(claim.to_data()))
    for part in _MEASURED if is_own else ("data",):
        _check_same(claim, f"{claim.path}: {part}", kept.get(part), now[part])


def check_asked(claim: Claim, then: Result, file: Path) -> None:
    """Refuse a result that is none of the claim: of other data or code, or of options in place of the claim's.

    Of a smoke test, and of a file from before options were kept, data and code are all that is known.
    """
    check_measured(claim, then)
    hint = f"assay bench run {reading.as_typed(claim)} --save {file} measures the code as it is now"
    check_code(claim, then, file, hint, is_judged=True)
    asked = then.options
    if asked is None or then.quick:
        return
    suite, run, size = suite_of(claim), claim.run, claim.data.size
    _check_device(claim, str(asked.get("device")))
    _check_seeds(claim, suite, asked.get("seeds"))
    _check_seconds(claim, asked.get("seconds"))
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
        _check_same(claim, f"the claim {claim.name}: {name}", kept.get(name), value)


def _check_device(claim: Claim, measured: str) -> None:
    said = claim.run.device
    if said is not None and measured.partition(":")[0] != said.partition(":")[0]:
        raise InputError(
            f"the claim {claim.name}: device: expected {said}, got a result of {measured}",
            "run.device says where the claim is measured; without it, results of any device are of it",
        )


def _check_seeds(claim: Claim, suite: Suite, measured: Any) -> None:
    """More than the claim's are fine; with fewer, one could choose those that pass."""
    said = list(claim.data.seeds)
    is_known = isinstance(measured, list) and all(seed in measured for seed in said)
    if suite.seeding == "inputs" and said and not is_known:
        raise InputError(
            f"the claim {claim.name}: seeds: expected all of {said}, got a result of {measured}",
            "measure the claim with its seeds",
        )


def _check_seconds(claim: Claim, measured: Any) -> None:
    """Longer than the claim asks for is fine."""
    said = claim.run.seconds
    if said is not None and not (isinstance(measured, (int, float)) and measured >= said):
        raise InputError(
            f"the claim {claim.name}: seconds: expected at least {said:g}, got a result of "
            f"{measured or 'the usual'}",
            f"assay bench run {reading.as_typed(claim)} --save FILE measures as long as run.seconds says",
        )


def _check_same(claim: Claim, where: str, measured: Any, said: Any) -> None:
    if measured == said:
        return
    if isinstance(said, Mapping):
        differing = list(_differing(measured or {}, said))
        measured = measured and ", ".join(f"{name} = {value}" for name, value, _ in differing)
        said = ", ".join(f"{name} = {value}" for name, _, value in differing)
    raise InputError(
        f"{where}: expected what was measured, {measured}, got {said}",
        f"assay bench run {reading.as_typed(claim)} --save FILE measures the claim as it is now",
    )


def _differing(
    measured: Mapping[str, Any], said: Mapping[str, Any], where: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Entries of two tables that differ, by name; `none` where one lacks them."""
    for name in {**measured, **said}:
        left, right = (
            "none" if table.get(name) in (None, "", []) else table[name]
            for table in (measured, said)
        )
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            yield from _differing(left, right, f"{where}{name}.")
        elif left != right:
            yield f"{where}{name}", left, right


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
    settings = with_file(claim, settings)
    offered = [case.name for case in chosen.cases(settings)]
    parts = tuple(map(str, asked.get("cases") or ()))
    names = [name for name in kept if name in offered and _is_of(name, cases)]
    if not names:
        raise InputError(
            f"the suite {then.suite}: expected a case of the file, such as {kept[0]!r}, got "
            f"{offered[0]!r} and {len(offered) - 1} others",
            "--sizes gives the sizes of a file from before files kept them",
        )
    # All that were asked for are asked for in the same words, so that the result is of the same claim.
    is_whole = {name for name in offered if _is_of(name, parts)} == set(names)
    settings = settings.of_cases(parts if is_whole else names, asked.get("settings") or {})
    seeds = tuple(asked.get("seeds") or (0,))
    seconds = asked.get("seconds")
    kept_claim = claim.to_data() if claim.path else then.claim
    return Prepared(
        claim,
        chosen,
        settings,
        seeds,
        seconds if isinstance(seconds, (int, float)) else None,
        kept_claim,
    )


def _is_of(name: str, parts: Sequence[str]) -> bool:
    """Whether a case is among those that parts of names ask for; none ask for all."""
    return not parts or any(part in name for part in parts)
