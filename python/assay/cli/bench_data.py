"""`assay bench manifest`: the data sets of claims, staged here and held against their hashes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Report, count, size, table, working
from assay.errors import AssayError, CheckFailedError, InputError, unknown_name

ACTIONS: Final = ("build", "verify", "list", "evict")
MANIFEST: Final = Path("manifest.json")
_BUDGET: Final = re.compile(r"([0-9]{1,15})(?: ?(KB|kB|MB|GB|TB))?")
_BYTES: Final = {"KB": 10**3, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, None: 1}


def bench_manifest_command(
    action: Annotated[
        str,
        argument(
            "ACTION",
            "build: stage and hash data sets; verify: hash them again; list: what is staged; "
            "evict: remove the least recently used until the budget holds.",
        ),
    ],
    claims: Annotated[
        list[str] | None,
        argument(
            "[CLAIM]...",
            "build: the claims, all of bench/claims if none; verify: claims whose generators may run, "
            "beside those of bench/claims.",
        ),
    ] = None,
    manifest: Annotated[
        Path, option("--manifest FILE", "Where the manifest is written, and read.")
    ] = MANIFEST,
    budget: Annotated[
        str,
        option(
            "--budget SIZE",
            "What staged data sets may take together: 500MB, 20GB; KB, MB, GB and TB are powers of 1000.",
        ),
    ] = "20GB",
    as_json: options.Json = False,
) -> Report:
    """Stage the data sets of claims, and hold them against their hashes.

    A data set is a file that was copied or downloaded, or what a generator makes of a seed. Staged
    files are a cache: beyond the budget, the least recently used go.
    """
    if action not in ACTIONS:
        raise unknown_name("action", action, ACTIONS)
    if claims and action not in ("build", "verify"):
        raise InputError(f"{action}: expected no claims, got {', '.join(claims)}")
    nbytes = _budget(budget)
    if action == "build":
        return _build(claims or [], nbytes, manifest, as_json)
    if action == "verify":
        return _verify(claims or [], manifest, as_json)
    from assay.bench.claims import staging

    evicted = list(staging.evict(nbytes)) if action == "evict" else []
    kept = staging.staged()
    data = {
        "folder": str(staging.folder()),
        "staged": [{"sha256": entry.sha256, "bytes": entry.nbytes} for entry in kept],
        "evicted": [entry._asdict() for entry in evicted],
    }

    def text(canvas: Canvas) -> Iterator[Line]:
        rows: list[list[Any]] = [
            [(entry.sha256[:16], styles.NAME), size(entry.nbytes)] for entry in kept
        ]
        yield from table(("sha256", "size"), rows, canvas, right=(1,))
        if not kept:
            yield f"no data set is staged in {staging.folder()}"
        for entry in evicted:
            yield f"removed {entry.sha256[:16]}, {size(entry.nbytes)}"

    return Report(data, text, as_json)


def _budget(text: str) -> int:
    match = _BUDGET.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"--budget: expected bytes, or a number with KB, MB, GB or TB, got {text!r}",
            "--budget 500MB",
        )
    return int(match[1]) * _BYTES[match[2]]


def _build(names: list[str], nbytes: int, path: Path, as_json: bool) -> Report:
    from assay.bench.claims import manifest, reading

    claims = manifest.claims_of(names or reading.claim_names())
    with working("hashing data sets", log=True) as progress:
        entries, evicted = manifest.build(claims, nbytes, progress)
    manifest.save(entries, path)
    data = {
        "manifest": str(path),
        "data_sets": [_data(entry) for entry in entries],
        "evicted": [entry._asdict() for entry in evicted],
    }

    def text(canvas: Canvas) -> Iterator[Line]:
        rows: list[list[Any]] = [
            [
                (entry.claim, styles.NAME),
                entry.source,
                "" if entry.seed is None else str(entry.seed),
                "" if entry.nbytes is None else size(entry.nbytes),
                (entry.sha256 or "")[:16],
            ]
            for entry in entries
        ]
        yield from table(("claim", "data", "seed", "size", "sha256"), rows, canvas, right=(2, 3))
        yield ""
        yield f"{count(len(entries), 'data set')} in {path}"

    return Report(data, text, as_json)


def _verify(names: list[str], path: Path, as_json: bool) -> Report:
    from assay.bench.claims import manifest

    entries = manifest.load(path)
    with working("hashing data sets", log=True):
        verdicts = manifest.verify(entries, manifest.claims_of(names))
    data = {
        "manifest": str(path),
        "data_sets": [
            {**_data(verdict.entry), "status": verdict.status, "reason": verdict.reason}
            for verdict in verdicts
        ],
    }

    def text(canvas: Canvas) -> Iterator[Line]:
        rows: list[list[Any]] = [
            [
                (verdict.entry.claim, styles.NAME),
                "" if verdict.entry.seed is None else str(verdict.entry.seed),
                (verdict.status, styles.GOOD if verdict.status == manifest.INTACT else styles.BAD),
                verdict.reason,
            ]
            for verdict in verdicts
        ]
        yield from table(("claim", "seed", "status", "how"), rows, canvas, right=(1,))

    problem: AssayError | None = None
    for status, kind in ((manifest.MISSING, InputError), (manifest.ALTERED, CheckFailedError)):
        named = [verdict.entry.claim for verdict in verdicts if verdict.status == status]
        if named:
            problem = kind(f"{status}: {', '.join(dict.fromkeys(named))}")
    return Report(data, text, as_json, problem)


def _data(entry: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(entry)
