"""The faults that are injected: one case for each place, manner and step."""

from injection import Case

PARTS = ("before", "torn", "unacknowledged", "after")
KINDS = (
    "started", "fingerprint", "phase", "engine", "safe", "baseline", "noise", "plan", "candidates", "ranking",
    "intend", "applied", "reverting", "reverted", "block", "experiment", "verdict", "kept",
    "degradation", "report", "finished",
)  # fmt: skip
"""Kinds of records that a run of the loop writes without a fault."""
CALLS = ("describe", "settings", "configure", "revert", "measure", "probe", "follow", "capture")
FILES = (
    "marker", "configuration.json", "plan.json", "state.parquet", "experiments.parquet",
    "degradations.json", "report.json", "report.md", "report.html",
)  # fmt: skip
POINTS = (
    *(f"journal.{kind}.{part}" for kind in KINDS for part in PARTS),
    *(f"engine.{call}.{part}" for call in CALLS for part in ("before", "after")),
    "engine.server_started",
    *(f"write.{name}.{part}" for name in FILES for part in ("before", "unnamed", "after")),
    "watchdog.started",
)
"""Every point that a run of the loop passes; a test holds the list to the code."""

NUMBERS = {
    "journal.intend": 4, "journal.applied": 4, "journal.block": 50, "journal.reverting": 4,
    "journal.reverted": 4, "journal.engine": 9, "journal.phase": 4, "journal.experiment": 2,
    "journal.verdict": 2, "journal.safe": 2, "engine.settings": 25, "engine.configure": 4,
    "engine.revert": 4, "engine.measure": 50, "engine.probe": 5, "engine.server_started": 9,
    "write.configuration.json": 2, "write.plan.json": 3,
}  # fmt: skip
"""Which passage is hit of points that a run passes often: one with changes in force."""


def number(point: str) -> int:
    """Which passage of a point is hit."""
    return next((value for start, value in NUMBERS.items() if point.startswith(start)), 1)


def at(point: str, action: str) -> str:
    """What ASSAY_FAULT says."""
    return f"{point}={action}@{number(point)}"


CHANGING = [
    point
    for point in POINTS
    if point.startswith(("journal.intend", "journal.applied", "journal.rever", "journal.block"))
    or point.startswith(("engine.configure", "engine.revert", "engine.measure", "engine.server"))
]
"""Points with a change in force or on its way."""
SERVER_FAULTS = ("crash", "oom", "hang-start", "slow-start", "crash-later", "hang-later", "wrong")

CASES = [
    *(Case(f"kill -9 at {point}", at(point, "kill")) for point in POINTS),
    *(
        Case(f"kill -9 of controller and watchdog at {point}", at(point, "kill"), both=True)
        for point in CHANGING
    ),
    *(
        Case(f"kill -9 at {point}, server of the run", at(point, "kill"), found=False)
        for point in CHANGING[::3]
    ),
    *(Case(f"hang at engine.{call}", at(f"engine.{call}.after", "hang"), silence_s=15.0) for call in CALLS),
    *(
        Case(f"disk full at {point}", at(point, "full"))
        for point in POINTS
        if point.startswith(("journal.", "write.")) and point.endswith((".torn", ".unnamed"))
    ),
    *(Case(f"bug at {point}", at(point, "error")) for point in POINTS if point.startswith("engine.")),
    *(
        Case(f"server {fault} with {knob}={value}", server={knob: {value: fault}})
        for fault in SERVER_FAULTS
        for knob, value in (("threads", "2"), ("cache", "q8_0"))
    ),
    *(
        Case(f"watchdog killed after {records} records", watchdog_at=records)
        for records in (1, 3, 10, 30, 60, 90, 120)
    ),
    *(
        Case(f"clock jumps by {jump:g} s, {points or 'no fault'}", points, jump_s=jump)
        for jump in (1e9, -1e9, 7200.0)
        for points in ("", "journal.block.torn=kill@50", "engine.configure.after=kill@4")
    ),
]  # fmt: skip
"""Into the loop itself."""

SAMPLE = [
    Case("kill -9 in a change", "journal.intend.after=kill@3", driver="driver"),
    Case("kill -9 in the middle of a record", "journal.applied.torn=kill", driver="driver"),
    Case("kill -9 before a server is recorded", "engine.server_started=kill@5", driver="driver"),
    Case("kill -9 of both", "engine.configure.after=kill@3", both=True, driver="driver"),
    Case("disk full", "journal.intend.torn=full@2", driver="driver"),
    Case("server crash", server={"batch": {"16": "crash-later"}}, driver="driver"),
    Case("watchdog killed", watchdog_at=22, driver="driver"),
]
"""Into a controller of three short experiments: the default tests have no time for the loop."""
