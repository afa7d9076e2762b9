"""Gives damaged files, requests and answers of servers to what reads them.

For each target of `fuzz_targets.py` random damage of valid inputs is tried for some
seconds. An exception that is no typed refusal is printed with its trace, and the input that caused
it is stored; the exit status is then 1. `make fuzz` runs it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

_TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(_TESTS / folder) for folder in (".", "engine", "diagnose", "attacks")]

from fuzz_targets import FEW, NAMES, REFUSALS, Target, targets  # noqa: E402

from assay.errors import AssayError  # noqa: E402

MEMORY_BYTES = 16 << 30
"""Address space: an input that asks for more is a finding."""


def main() -> int:
    """Fuzz the targets, and return the exit status."""
    parser = argparse.ArgumentParser(description="Fuzz what reads strangers' input.")
    parser.add_argument("targets", nargs="*", help="names of targets; all if not given")
    parser.add_argument("--seconds", type=float, default=30.0, help="time for each target")
    parser.add_argument("--seed", type=int, default=0, help="of the damage")
    parser.add_argument("--findings", type=Path, default=Path("fuzz/findings"), help="folder")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the targets")
    parser.add_argument("--few", action="store_true", help="of few formats and architectures")
    options = parser.parse_args()
    if options.jobs > 1:
        return _share(options)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    failed = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        targets(Path(folder), FEW if options.few else None) as known,
    ):
        for name in options.targets or sorted(known):
            if name not in known:
                parser.error(f"expected a target of {', '.join(sorted(known))}, got {name}")
            found = fuzz(name, known[name], options.seconds, options.seed, options.findings)
            failed += found
    return 1 if failed else 0


def _share(options: argparse.Namespace) -> int:
    """Run the targets in several processes; 1 if one of them found something."""
    names = options.targets or NAMES
    shared = ["--seconds", str(options.seconds), "--seed", str(options.seed)]
    shared += ["--findings", str(options.findings), *(["--few"] if options.few else [])]
    processes = [
        subprocess.Popen([sys.executable, __file__, *shared, *names[job :: options.jobs]])
        for job in range(min(options.jobs, len(names)))
    ]
    return max(process.wait() != 0 for process in processes)


def fuzz(name: str, target: Target, seconds: float, number: int, findings: Path) -> int:
    """Damage inputs of one target; returns how many different failures there were."""
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    end, turn = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        chance = Random(f"{name} {number} {turn}")
        seed = chance.choice(sorted(target.seeds))
        damaged = target.damage(target.seeds[seed], chance)
        try:
            target.use(seed, damaged)
            counts["accepted"] += 1
        except (AssayError, *REFUSALS):
            counts["refused"] += 1
        except Exception as error:
            counts["failed"] += 1
            last = traceback.extract_tb(error.__traceback__)[-1]
            if (key := f"{type(error).__name__} {last.filename}:{last.lineno}") not in seen:
                seen.add(key)
                report(name, seed, turn, damaged, findings)
        turn += 1
    print(f"{name}: {turn} inputs, {dict(counts)}, {len(seen)} different failures", flush=True)
    return len(seen)


def report(name: str, seed: str, turn: int, damaged: object, findings: Path) -> None:
    """Print a failure, and store its input."""
    findings.mkdir(parents=True, exist_ok=True)
    path = findings / f"{name}-{seed}-{turn}".replace("/", "_")
    data = damaged if isinstance(damaged, bytes) else json.dumps(damaged, indent=1).encode()
    path.write_bytes(data)
    print(f"{name}: a failure of {seed}, stored in {path}", flush=True)
    traceback.print_exc()


if __name__ == "__main__":
    sys.exit(main())
