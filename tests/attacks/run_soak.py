"""`assay run` under faults for a time: each run is hit somewhere, then looked at; ends at the first that is not safe.

python tests/attacks/run_soak.py --seconds 7200

Faults are those of tests/improve/faults at a passage that is drawn, alone or together: the controller is
killed, hangs, meets a full disk or a bug, its watchdog dies, the server misbehaves, the clock jumps. Some runs
that were cut short go on without a fault, and some that have ended are taken back. The engine must
end in the recorded safe configuration, measured blocks stay, reports verify, and no process is left.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
FOLDERS = ("improve/faults", "improve/journal", "improve")
# At the end: other folders of tests have modules of the same names, and pytest knows which comes first.
sys.path += [str(TESTS / folder) for folder in FOLDERS] + [str(TESTS.parent / "python")]

import injection  # noqa: E402
from cases import CASES, SERVER_FAULTS  # noqa: E402
from injection import (  # noqa: E402
    START,
    Aftermath,
    Case,
    check,
    clean_up,
    resume,
    run_case,
    run_command,
    servers_of,
    stored_configuration,
)

from assay.improve.journal import block_table, journal  # noqa: E402
from assay.report.verify import verify  # noqa: E402

_PASSAGE = re.compile(r"@(\d+)$")
_KNOBS = (("threads", "2"), ("cache", "q8_0"), ("batch", "16"))


def drawn(generator: random.Random) -> Case:
    """A case at another passage than that of the tests, and now and then with a second fault."""
    case = generator.choice(CASES)
    if match := _PASSAGE.search(case.points):
        passage = generator.randint(1, 2 * int(match[1]))
        case = replace(case, points=f"{case.points[: match.start()]}@{passage}")
    if case.points and not case.server and generator.random() < 0.25:
        knob, value = generator.choice(_KNOBS)
        case = replace(case, server={knob: {value: generator.choice(SERVER_FAULTS)}})
    if case.points and not case.jump_s and generator.random() < 0.25:
        case = replace(case, jump_s=generator.choice((1e9, -1e9, 7200.0)))
    return case


def injected(case: Case, folder: Path, generator: random.Random) -> Counter[str]:
    """Run a case and what may follow; raises where something does not hold."""
    counts = Counter({_kind(case): 1})
    left = run_case(case, folder)
    try:
        check(case, left)
        if not journal.read(left.run.path).is_finished and generator.random() < 0.4:
            before = [block.value for block in block_table.blocks_in_journal(left.run)]
            left = resume(left, folder)
            check(case, replace(left, acknowledged=before + left.acknowledged))
            counts["went on"] += 1
        _check_report(left)
        if case.found and journal.read(left.run.path).is_finished and generator.random() < 0.3:
            _take_back(left, folder)
            counts["taken back"] += 1
    finally:
        clean_up(left, folder)
    assert servers_of(folder / "state") == []
    return counts


def _kind(case: Case) -> str:
    if case.watchdog_at is not None:
        return "watchdog"
    action = case.points.partition("=")[2].partition("@")[0]
    return action or ("server" if case.server else "clock")


def _check_report(left: Aftermath) -> None:
    reading = journal.read(left.run.path)
    if reading.last("report") is not None and reading.is_finished:
        failures = verify(left.run.path).failures
        assert not failures, failures


def _take_back(left: Aftermath, folder: Path) -> None:
    data = json.loads(run_command(folder, "rollback", left.run.id, "--json"))
    assert data["journal_intact"], data
    assert stored_configuration(folder / "state") == START, data


def soak(seconds: float, seed: int) -> Counter[str]:
    """Inject faults for so many seconds; a folder of a case that does not hold stays."""
    generator, counts = random.Random(seed), Counter[str]()
    end_s, number = time.monotonic() + seconds, 0
    while time.monotonic() < end_s:
        folder = Path(tempfile.mkdtemp(prefix="assay-soak-"))
        case, number = drawn(generator), number + 1
        try:
            counts += injected(case, folder, generator)
        except BaseException:
            print(f"seed {seed}, run {number}: {case}, in {folder}", file=sys.stderr, flush=True)
            raise
        shutil.rmtree(folder)
        if not number % 10:
            left_s = max(end_s - time.monotonic(), 0.0)
            print(f"{number:,} runs, {left_s:,.0f} s left", file=sys.stderr, flush=True)
    return counts + Counter(runs=number)


def main() -> None:
    """Read the options and soak."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--patience",
        type=float,
        default=1800.0,
        help="seconds in which a run must end; one of a few seconds takes minutes on a starved machine",
    )
    given = parser.parse_args()
    injection.QUIET_S = given.patience
    counts = soak(given.seconds, given.seed)
    print(f"{counts.pop('runs'):,} runs under faults, all ended safe: {dict(counts)}")


if __name__ == "__main__":
    main()
