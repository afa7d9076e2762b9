"""`assay bench profile`: where the time of a claim's calls goes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Report, report_of, table, working
from assay.errors import InputError

_SHOWN = 8
"""Operations of a case that the table shows."""


def bench_profile_command(
    claim: Annotated[str, argument("CLAIM", "A bench.toml, or the name of a claim or suite.")],
    out: Annotated[
        Path, option("--out FOLDER", "Where to store the trace; must not exist.")
    ] = Path("profile"),
    calls: Annotated[int, option("--calls COUNT", "Calls of each case to trace.")] = 5,
    device: Annotated[
        str | None, option("--device DEVICE", "Device to measure; the claim's if not given.")
    ] = None,
    case: Annotated[
        list[str] | None,
        option("--case TEXT", "Only cases whose name contains TEXT. May be repeated."),
    ] = None,
    quick: Annotated[bool, option("--quick", "The small sizes of a smoke test.")] = False,
    as_json: options.Json = False,
) -> Report:
    """Trace calls of a claim's cases: operations, copies, and time between them.

    The trace is a folder that assay trace show, summary and export read. On a GPU, Nsight Systems or
    rocprof runs the same, where it is installed; else the report says that it is not.
    """
    if calls < 1:
        raise InputError(f"--calls: expected at least 1, got {calls}")
    if out.exists():
        raise InputError(f"{out}: exists already", "name another folder, or remove it")
    from assay.bench.claims import profiling, reading, running

    named = reading.claim_named(claim)
    asked = running.Asked(device=device, quick=quick, cases=case or ())
    prepared = running.prepare(named, asked)
    words = ["bench", "run", claim, "--quick", "--device", prepared.settings.device.name]
    with working(f"profiling {claim}", log=True) as progress:
        profile = profiling.profile(prepared, out, calls, words, progress)
    return report_of(profile, lambda canvas: _text(profile, canvas), as_json)


def _text(profile: Any, canvas: Canvas) -> Iterator[Line]:
    rows: list[list[Any]] = []
    for case in profile.cases:
        whole = f"{case['ns'] / case['calls'] / 1e3:,.1f}"
        rows.append([(case["case"], styles.NAME), "", whole, f"{case['in_operations']:.0%}"])
        for row in case["operations"][:_SHOWN]:
            each = f"{row['ns'] / case['calls'] / 1e3:,.1f}"
            rows.append(["", row["operation"], each, f"{row['share']:.0%}"])
    yield from table(("case", "operation", "mean us a call", "share"), rows, canvas, right=(2, 3))
    yield ""
    yield f"stored {profile.trace}: assay trace summary {profile.trace}"
    for name, said in profile.profilers.items():
        yield f"{name}: {said}"
