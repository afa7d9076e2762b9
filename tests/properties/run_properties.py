"""Draws scenarios and checks every invariant; prints violations as command lines to paste.

The exit status is 1 where an invariant was violated, more draws than allowed were refused, or an
accelerator or model was drawn too rarely. `make properties` runs it, on a Ray cluster with
`ON=http://HEAD:8265`. Finished parts are kept (`assay cache list` shows `parts`), and are not run again
unless a source file has changed: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import os

# Before NumPy is loaded: the processes below share the cores already.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER)]

import draws  # noqa: E402
import invariants  # noqa: E402
import tally as t  # noqa: E402
from property_harness import Answers, RefusedError, shrunk, violation_of  # noqa: E402
from tally import Tally  # noqa: E402

import assay  # noqa: E402
from assay.cluster import current  # noqa: E402
from assay.cluster.parts import Work, gathered  # noqa: E402
from assay.errors import AssayError  # noqa: E402

PART = 100
TASK = "run_properties:check_task"
KEPT = FOLDER.parents[1] / "build" / "properties"


def check(seed: str, indices: range, names: tuple[str, ...] = ()) -> Tally:
    """Check the draws of some numbers; the first violation of each invariant is shrunk."""
    start, answers, tally = time.monotonic(), Answers(invariants.ALL), Tally()
    for index in indices:
        kind, turn = draws.turn_of(index)
        draw = draws.of_kind(kind, seed, turn)
        reason, checks = None, 0
        for invariant in invariants.ALL:
            if invariant.kind != kind or (names and invariant.name not in names):
                continue
            if turn % invariant.every:
                continue
            try:
                if answers.lacks(draw, *invariant.needs):
                    continue
                violation = violation_of(invariant, draw, answers)
            except RefusedError as error:
                if not checks:
                    reason = str(error)
                    break
                # The draw has answers, but the one that it is compared with has none.
                continue
            checks += 1
            tally.checks[invariant.name] += 1
            if violation is None:
                continue
            tally.violated[invariant.name] += 1
            if invariant.name not in tally.violations:
                smallest = shrunk(invariant, violation, draw, answers)
                tally.violations[invariant.name] = str(smallest)
        tally.drawn(draw, reason)
    tally.seconds = time.monotonic() - start
    return tally


def sources() -> str:
    """A digest of the product and of the invariants: answers of other sources do not count."""
    product = Path(assay.__file__).parent
    files = [*product.rglob("*.py"), *product.rglob("*.json"), *FOLDER.glob("*.py")]
    digest = hashlib.sha256()
    for path in sorted(files):
        # Elsewhere the same files have other folders.
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def check_task(shared: dict[str, Any]) -> Callable[[list[int]], Any]:
    """Parts of the draws, for `assay.cluster`."""
    names = tuple(shared["names"])
    return lambda part: check(shared["seed"], range(*part), names).to_data()


def _run(options: argparse.Namespace) -> Tally:
    """All parts on all workers, or on the nodes of the cluster that this is a job of."""
    end = options.first + options.count
    parts = [[start, min(start + PART, end)] for start in range(options.first, end, PART)]
    shared = {"seed": options.seed, "names": options.only, "sources": sources()}
    work = Work(TASK, shared, parts, f"parts of {PART} draws")
    results = (
        gathered(work, current.runner(options.workers), None, _say)
        if options.fresh
        else current.run(work, options.workers, _say)
    )
    total = Tally()
    for data in results:
        total.add(Tally.from_data(data))
    return total


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _submit(options: argparse.Namespace) -> int:
    """Run as a job of a cluster; what it prints, and its exit code."""
    from assay.cli.on_cluster import attached
    from assay.cluster import jobs

    words = [word for word in sys.argv[1:] if word not in ("--on", options.on)]
    record = jobs.submit(
        options.on, "properties", words, "make properties", script=Path(__file__).resolve()
    )
    return attached(jobs.Cluster(record.address), record.id)


def main() -> int:
    """Check all draws on all cores, and print what was violated."""
    parser = argparse.ArgumentParser(description="Check invariants on random scenarios.")
    parser.add_argument("--count", type=int, default=t.WHOLE_RUN, help="draws")
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--seed", default="0", help="of the draws")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--only", action="append", default=[], help="name of an invariant")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run has done")
    parser.add_argument("--on", help="the head of a Ray cluster: http://HEAD:8265")
    options = parser.parse_args()
    try:
        if options.on:
            return _submit(options)
        total = _run(options)
    except AssayError as error:
        _say(f"error: {error.message}\nhint: {error.hint}")
        return error.exit_code
    failures = t.problems(total)
    print("\n".join(t.report(total)))
    each = total.seconds / max(total.draws, 1)
    print(
        f"\n{total.draws:,} draws, {len(total.checks)} invariants, {total.checks.total():,} checks, "
        f"{total.refused_share:.1%} refused, {each * 1e3:.0f} ms a draw on one core, "
        f"{total.seconds / 60 / options.workers:.1f} min on {options.workers}"
    )
    summary = {
        "draws": total.draws, "seed": options.seed, "seconds_a_draw": each,
        "refused_share": total.refused_share, "problems": failures, **total.to_data(),
    }  # fmt: skip
    if not current.is_job():
        only = hashlib.sha256("\n".join(options.only).encode()).hexdigest()[:8]
        path = KEPT / f"{options.seed}-{only if options.only else 'all'}-{sources()}.summary.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(summary, indent=1) + "\n", "utf-8")
        print(f"summary: {path}")
    print("\n".join(failures) or "no violation")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
