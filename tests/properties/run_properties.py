"""Draws scenarios and checks every invariant; prints violations as command lines to paste.

The exit status is 1 where an invariant was violated, more draws than allowed were refused, or an
accelerator or model was drawn too rarely. `make properties` runs it. Finished parts are kept under
`build/properties` with what they came to, and are not run again unless a source file has changed:
a run that was stopped goes on where it was.
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
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER)]

import draws  # noqa: E402
import invariants  # noqa: E402
import tally as t  # noqa: E402
from property_harness import Answers, RefusedError, shrunk, violation_of  # noqa: E402
from tally import Tally  # noqa: E402

import assay  # noqa: E402

PART = 100
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
        digest.update(str(path).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _finished(path: Path) -> dict[int, Tally]:
    """Parts that an earlier run has done, by the number of their first draw."""
    if not path.exists():
        return {}
    lines = path.read_text("utf-8").splitlines()
    parts = [json.loads(line) for line in lines if line.endswith("}")]
    return {int(part["start"]): Tally.from_data(part["tally"]) for part in parts}


def _run(options: argparse.Namespace, path: Path) -> Tally:
    """All parts that are not done yet, on all workers; each is written down when it is done."""
    total, names = Tally(), tuple(options.only)
    done = {} if options.fresh else _finished(path)
    starts = range(options.first, options.first + options.count, PART)
    for start in starts:
        if start in done:
            total.add(done[start])
    left = [start for start in starts if start not in done]
    if total.draws:
        print(f"{total.draws:,} draws are done already: {path}", file=sys.stderr)
    path.parent.mkdir(parents=True, exist_ok=True)
    begin, end = time.monotonic(), options.first + options.count
    number = 0
    with (
        path.open("w" if options.fresh else "a") as kept,
        ProcessPoolExecutor(options.workers) as pool,
    ):
        running = {
            pool.submit(check, options.seed, range(start, min(start + PART, end)), names): start
            for start in left
        }
        for future in as_completed(running):
            part, number = future.result(), number + 1
            kept.write(json.dumps({"start": running[future], "tally": part.to_data()}) + "\n")
            kept.flush()
            total.add(part)
            minutes = (time.monotonic() - begin) / 60
            print(
                f"{total.draws:,} of {options.count:,} draws, {len(total.violations)} "
                f"invariants violated, {minutes:.1f} min, about "
                f"{minutes / number * (len(left) - number):.0f} min left",
                file=sys.stderr,
            )
    return total


def main() -> int:
    """Check all draws on all cores, and print what was violated."""
    parser = argparse.ArgumentParser(description="Check invariants on random scenarios.")
    parser.add_argument("--count", type=int, default=t.WHOLE_RUN, help="draws")
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--seed", default="0", help="of the draws")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--only", action="append", default=[], help="name of an invariant")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run has done")
    options = parser.parse_args()
    only = (
        hashlib.sha256("\n".join(options.only).encode()).hexdigest()[:8] if options.only else "all"
    )
    path = KEPT / f"{options.seed}-{only}-{sources()}.jsonl"
    total = _run(options, path)
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
    path.with_suffix(".summary.json").write_text(json.dumps(summary, indent=1) + "\n", "utf-8")
    print(f"summary: {path.with_suffix('.summary.json')}")
    print("\n".join(failures) or "no violation")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
