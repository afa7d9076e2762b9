"""`assay.optimize`: the loop as a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.engine import Engine as AssayEngine
from assay.improve.engines.opening import open_engine
from assay.improve.engines.own import OwnEngine, source_of
from assay.improve.engines.protocol import Engine
from assay.improve.loop.controller import run_loop
from assay.improve.loop.options import RunOptions
from assay.improve.loop.outcome import Outcome
from assay.improve.loop.progress import Progress
from assay.load.workloads.spec import parse_duration, parse_share, parse_workload
from assay.load.workloads.workload import Workload


def optimize(
    engine: Any,
    budget: str | float = "3m",
    target: str | float | None = None,
    *,
    workload: str | Path | Workload = "chat",
    progress: Progress | None = None,
    root: Path | None = None,
    **options: Any,
) -> Outcome:
    """Improve an engine: an `assay.Engine`, the URL of a server, or a `vllm.LLM`.

    Proven changes stay in force when it returns; everything else is undone. `budget` is a duration
    such as "24h" or seconds, `target` a gain such as 0.15 or "15%". A workload is a name, a file
    or a `Workload`; the other options are the fields of `RunOptions`.

        outcome = assay.optimize(engine, budget="24h", target=0.15)
        print(outcome.verdict, outcome.ratio, outcome.launch_command)
    """
    opened, owns, model = _opened(engine)
    chosen = RunOptions(
        budget_s=parse_duration("budget", budget),
        target=None if target is None else parse_share("target", target),
        **options,
    )
    planned = workload if isinstance(workload, Workload) else parse_workload(str(workload))
    try:
        return run_loop(
            opened, planned, chosen, model=model, progress=progress, root=root, command="optimize"
        )
    finally:
        if owns:
            opened.close()


def _opened(engine: Any) -> tuple[Engine, bool, str | None]:
    """An engine of the protocol, whether it was opened here, and its model for the planner."""
    if isinstance(engine, AssayEngine):
        return OwnEngine(engine), False, source_of(engine)
    if isinstance(engine, Engine):
        return engine, False, None
    return open_engine(engine), True, None
