"""`assay bench list`: what can be measured."""

from collections.abc import Iterator
from typing import Any

from assay.cli import options, styles
from assay.cli.bench import SERVING
from assay.cli.output import Canvas, Line, Report, table


def bench_list_command(as_json: options.Json = False) -> Report:
    """List claims, workloads and suites: what `assay bench run`, `gate` and `profile` take."""
    from assay.bench.claims import reading
    from assay.bench.suites.registry import SUITES
    from assay.workloads.registry import WORKLOADS, workload

    claims = [reading.claim_named(name) for name in reading.claim_names()]
    named = {claim.name for claim in claims}
    entries: list[dict[str, Any]] = [
        {
            "name": claim.name,
            "kind": "own work"
            if claim.work is not None
            else "workload"
            if claim.suite in WORKLOADS
            else "suite",
            "unit": claim.unit,
            "metric": claim.metric,
            "about": claim.about,
            "file": None if claim.path is None else str(claim.path),
        }
        for claim in claims
    ]
    for name in (*WORKLOADS, *SUITES):
        if name not in named:
            is_workload = name in WORKLOADS
            entries.append(
                {
                    "name": name,
                    "kind": "workload" if is_workload else "suite",
                    "unit": workload(name).unit if is_workload else None,
                    "metric": None,
                    "about": "has no claim here",
                    "file": None,
                }
            )
    entries.append(
        {
            "name": SERVING,
            "kind": "servers",
            "unit": "token",
            "metric": "tok/s",
            "about": "Servers side by side under load",
            "file": None,
        }
    )
    return Report({"claims": entries}, lambda canvas: _text(entries, canvas), as_json)


def _text(entries: list[dict[str, Any]], canvas: Canvas) -> Iterator[Line]:
    cells: list[list[Any]] = [
        [(entry["name"], styles.NAME), entry["kind"], entry["metric"] or "", entry["about"]]
        for entry in entries
    ]
    yield from table(("claim", "measures a", "in", "about"), cells, canvas)
