"""Runs the loop on planted levers and says which it kept: `python tests/improve/planted/planted_judging.py`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from further_levers import FURTHER
from planted_levers import ALL, Planted
from scripted_engine import ScriptedEngine, workload

from assay.errors import AssayError
from assay.improve.loop.controller import run_loop
from assay.improve.loop.options import RunOptions

BUDGET_S = 600.0
LEVER = """\
format: assay.levers/1
engine: scripted
levers:
  - name: {name}
    mechanism: planted
    knobs: {{planted: ["on"]}}
    safety: may fail
    hot: {hot}
    correctness: {correctness}
    reference: a test
"""


def is_kept(planted: Planted, folder: Path, budget_s: float = BUDGET_S) -> tuple[bool, str]:
    """Whether a run with one planted lever keeps it, and why."""
    path = folder / f"{planted.name}.yaml"
    path.write_text(
        LEVER.format(
            name=planted.name, hot=str(planted.hot).lower(), correctness=planted.correctness
        )
    )
    engine = ScriptedEngine(planted)
    options = RunOptions(budget_s=budget_s, lever_files=(path,), production=True, use_history=False)
    try:
        outcome = run_loop(
            engine,
            workload(planted),
            options,
            lambda *_: None,
            root=folder / planted.name,
            clock=engine.clock,
        )
    except AssayError as error:
        return engine.is_on, f"{type(error).__name__}: {error.message}"
    reasons = [result.reason for result in (*outcome.kept, *outcome.undecided, *outcome.rejected)]
    why = f"{outcome.verdict}: {outcome.notes[0] if outcome.notes else ''}"
    return bool(outcome.kept) or engine.is_on, " | ".join(dict.fromkeys([why, *reasons]))


def main(names: Sequence[str]) -> int:
    """Judge all levers, or those that are named; 1 where the bars are missed."""
    chosen = [planted for planted in (*ALL, *FURTHER) if not names or planted.name in names]
    planted_by, kept_by = Counter[str](), Counter[str]()
    begun = time.monotonic()
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as name:
        for planted in chosen:
            kept, why = is_kept(planted, Path(name))
            planted_by[planted.kind] += 1
            kept_by[planted.kind] += kept
            if names or kept != (planted.kind == "good"):
                print(
                    f"{'kept' if kept else 'not kept':9s} {planted.kind}: {planted.name}: {why}",
                    flush=True,
                )
    for kind, count in planted_by.items():
        print(f"{kind:20s} planted {count:3d}  kept {kept_by[kind]:3d}")
    bad = sum(kept_by[kind] for kind in kept_by if kind not in ("harmless", "good"))
    print(f"{time.monotonic() - begun:.0f} s")
    good, planted_good = kept_by["good"], planted_by["good"]
    return int(bad > 0 or kept_by["harmless"] > 2 or good < planted_good - 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
