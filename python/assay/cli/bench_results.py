"""`assay bench compare`, `reproduce`, `gate` and `table`: what results say of each other."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli import options, styles
from assay.cli.bench import (
    Columns,
    FailOnRegression,
    Markdown,
    RivalPython,
    Seconds,
    Tolerance,
    check_tolerance,
    problem_of,
    require_writable,
    result_text,
    seal_notes,
)
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Report, count, table, working, wrapped
from assay.errors import AssayError, CheckFailedError, NoDataError

if TYPE_CHECKING:
    from assay.bench import Result
    from assay.bench.claims.claim import Gates
    from assay.bench.claims.judging import GateLine
    from assay.bench.claims.reproducing import Reproduced

_VERDICTS = {
    "passed": styles.GOOD,
    "failed": styles.BAD,
    "within its spread": styles.GOOD,
    "outside": styles.BAD,
    "wrong": styles.BAD,
}


def bench_compare_command(
    now: Annotated[Path, argument("NOW", "A saved result.")],
    then: Annotated[Path, argument("THEN", "An earlier one of the same suite.")],
    tolerance: Tolerance = 0.05,
    fail_on_regression: FailOnRegression = False,
    columns: Columns = None,
    markdown: Markdown = False,
    as_json: options.Json = False,
) -> Report:
    """Compare two saved results, figure by figure.

    A figure is compared by its ratio to a reference of the same rounds: its ceiling, else a rival
    that both have; without either, by its value.
    """
    check_tolerance(tolerance)
    from assay import bench
    from assay.bench.harness.table import columns_of, markdown as as_markdown

    shown = columns_of(columns)
    result, earlier = (bench.load(path, is_judged=fail_on_regression) for path in (now, then))
    compared = bench.compare(result, earlier, tolerance)
    return Report(
        compared.to_data(),
        lambda canvas: result_text(result, compared, canvas, shown),
        as_json,
        problem_of(result, compared, fail_on_regression),
        notes=seal_notes(result, earlier),
        raw=as_markdown(result, compared, shown) if markdown else None,
    )


def bench_table_command(
    results: Annotated[list[Path], argument("RESULT...", "Saved results.")],
    columns: Columns = None,
    as_json: options.Json = False,
) -> Report:
    """Print saved results as Markdown tables, with the conditions they were measured under."""
    from assay import bench
    from assay.bench.harness.table import columns_of, markdown, rows

    shown = columns_of(columns)
    loaded = [bench.load(path) for path in results]
    data = []
    for path, result in zip(results, loaded, strict=True):
        header, lines = rows(result, columns=shown)
        cells = [dict(zip(header, line, strict=True)) for line in lines]
        data.append({"file": str(path), "suite": result.suite, "rows": cells})
    text = "\n".join(markdown(result, columns=shown) for result in loaded)
    notes = seal_notes(*loaded)
    return Report({"tables": data}, lambda _: text.splitlines(), as_json, notes=notes, raw=text)


def bench_gate_command(
    claim: Annotated[str, argument("CLAIM", "A bench.toml, or the name of a claim or suite.")],
    result: Annotated[
        Path | None, option("--result FILE", "Judge this saved result in place of measuring.")
    ] = None,
    baseline: Annotated[
        Path | None,
        option("--baseline FILE", "An earlier result, against which a slowdown fails the gate."),
    ] = None,
    device: Annotated[
        str | None, option("--device DEVICE", "Device to measure; the claim's if not given.")
    ] = None,
    quick: Annotated[
        bool, option("--quick", "Small sizes and few samples: a smoke test of the gate.")
    ] = False,
    rival_python: RivalPython = None,
    seconds: Seconds = None,
    save: Annotated[
        Path | None, option("--save FILE", "Write the result as JSON, after each case.")
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Measure a claim, or read its result, and hold it against its gates.

    Answers are verified on inputs that the program has not seen, three seeds or more are asked for,
    saturation and where the time went must be reported, targets be reached, and nothing be slower
    than the baseline beyond noise. Exit code 1: a gate failed; 3: undecided.
    """
    from assay import bench
    from assay.bench.claims import judging, reading, rerunning, running
    from assay.bench.harness.comparison import check_comparable

    named = reading.claim_named(claim)
    earlier = None if baseline is None else bench.load(baseline, is_judged=True)
    if earlier is not None:
        check_comparable(named.suite, earlier, claim)
    if result is not None:
        judged = bench.load(result, is_judged=True)
        check_comparable(named.suite, judged, claim)
        rerunning.check_asked(named, judged, result)
    else:
        asked = running.Asked(
            device=device, quick=quick, seconds=seconds, is_gated=True, rival_python=rival_python
        )
        prepared = running.prepare(named, asked)
        if save is not None:
            require_writable(save)
        with working(f"measuring {claim}", log=True) as progress:
            judged = prepared.measure(progress, save)
    lines = judging.judge(judged, named.gates, earlier)
    verdict = judging.overall(lines)
    data = {
        "claim": named.name,
        "verdict": verdict,
        "gates": [line._asdict() for line in lines],
        "machine": judged.machine["device_description"],
        "quick": judged.quick,
    }
    return Report(
        data,
        lambda canvas: _gates(lines, verdict, judged, canvas),
        as_json,
        _failure(lines, _longer(claim, judged, is_saved=result is not None)),
        notes=[*seal_notes(judged, earlier), *_unjudged(named.gates, earlier)],
    )


def _longer(claim: str, judged: "Result", *, is_saved: bool) -> str:
    """What decides: a command that measures four times as long."""
    from assay.bench.harness.session import seconds_of

    seconds = 4 * seconds_of(judged)
    words = (
        f"run {claim} --seconds {seconds:g} --save FILE"
        if is_saved
        else f"gate {claim} --seconds {seconds:g}"
    )
    return f"assay bench {words} measures four times as long; a quieter machine helps, too"


def _unjudged(gates: "Gates", baseline: "Result | None") -> list[str]:
    """A note where no gate says anything about speed."""
    if gates.target or gates.saturation is not None or baseline is not None:
        return []
    return [
        "no speed is judged: the claim has neither [[gates.target]] nor gates.saturation, and there is "
        "no --baseline"
    ]


def _failure(lines: "list[GateLine]", hint: str) -> AssayError | None:
    from assay.bench.claims import judging

    verdict = judging.overall(lines)
    if verdict == judging.PASSED:
        return None
    about = list(
        dict.fromkeys(f"{line.figure}: {line.gate}" for line in lines if line.verdict == verdict)
    )
    named = "; ".join(about[:3]) + (f" and {len(about) - 3} more" if len(about) > 3 else "")
    if verdict == judging.FAILED:
        return CheckFailedError(f"failed: {named}")
    return NoDataError(f"undecided: {named}", hint)


def _gates(
    lines: "list[GateLine]", verdict: str, result: "Result", canvas: Canvas
) -> Iterator[Line]:
    from assay.bench.harness.table import conditions

    cells: list[list[Any]] = [
        [
            (line.figure, styles.NAME),
            line.gate,
            (line.verdict, _VERDICTS.get(line.verdict, "")),
            line.reason,
        ]
        for line in lines
    ]
    yield from table(("figure", "gate", "verdict", "why"), cells, canvas)
    yield ""
    others: Counter[str] = Counter(line.verdict for line in lines)
    of = f"{others.pop(verdict)} of {count(len(lines), 'gate')}"
    yield ", ".join([f"{verdict}: {of}", *(f"{number} {what}" for what, number in others.items())])
    for line in conditions(result):
        yield from wrapped(line, canvas, "", styles.FAINT)


def bench_reproduce_command(
    result: Annotated[Path, argument("RESULT", "A saved result.")],
    sizes: Annotated[
        str | None,
        option("--sizes SIZES", "Sizes of a result from before results kept them, such as 1M."),
    ] = None,
    case: Annotated[
        list[str] | None,
        option("--case TEXT", "Only cases whose name contains TEXT. May be repeated."),
    ] = None,
    claim: Annotated[
        Path | None,
        option(
            "--claim FILE", "The bench.toml of a result whose claim brings its work or data along."
        ),
    ] = None,
    rival_python: RivalPython = None,
    save: Annotated[
        Path | None, option("--save FILE", "Write the new result as JSON, after each case.")
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Measure what a result measured again: within its spread, outside, or undecided.

    On another machine than the recorded one, only ratios to a ceiling or rival of the same rounds are
    held against it, and figures that depend on no machine. Exit code 1: a figure is outside.
    """
    from assay import bench
    from assay.bench.claims import reading, reproducing, rerunning

    then = bench.load(result)
    named = rerunning.claim_of(then, None if claim is None else str(claim))
    run_it = f"assay bench run {reading.as_typed(named)} --save FILE"
    other = f"other code reproduces nothing: {run_it}, then assay bench compare FILE {result}"
    rerunning.check_code(named, then, result, other, is_judged=False)
    prepared = rerunning.again(
        then, named, sizes=sizes, cases=case or (), rival_python=rival_python
    )
    if save is not None:
        require_writable(save)
    with working(f"measuring {then.suite} again", log=True) as progress:
        now = prepared.measure(progress, save)
    rows = reproducing.reproduced(now, then, is_timed=prepared.suite.is_timed)
    data = {
        "result": str(result),
        "suite": then.suite,
        "same_machine": now.machine["fingerprint"] == then.machine["fingerprint"],
        "then": reproducing.machine_text(then),
        "now": reproducing.machine_text(now),
        "differences": list(_differences(now, then)),
        "figures": [row.to_data() for row in rows],
    }
    return Report(
        data,
        lambda canvas: _reproduced(now, then, rows, canvas),
        as_json,
        _apart(rows),
        notes=seal_notes(then),
    )


def _apart(rows: "list[Reproduced]") -> AssayError | None:
    from assay.bench.claims.reproducing import OUTSIDE, WITHIN, WRONG

    outside = [row.name for row in rows if row.verdict in (OUTSIDE, WRONG)]
    if outside:
        return CheckFailedError(f"not reproduced: {'; '.join(outside)}")
    if any(row.verdict == WITHIN for row in rows):
        return None
    return NoDataError(
        "undecided: no figure is within its spread, and none is outside",
        "a quieter machine decides, or a result of longer rounds: assay bench run CLAIM --seconds 10 "
        "--save FILE; another machine is compared by rivals and ceilings only",
    )


def _reproduced(
    now: "Result", then: "Result", rows: "list[Reproduced]", canvas: Canvas
) -> Iterator[Line]:
    from assay.bench.harness.table import number

    cells: list[list[Any]] = [
        [
            (row.name, styles.NAME),
            (row.verdict, _VERDICTS.get(row.verdict, "")),
            number(row.then),
            f"{number(row.band.low)} to {number(row.band.high)}",
            number(row.now),
            f"{number(row.interval.low)} to {number(row.interval.high)}",
            f"{row.by}; {row.doubt}" if row.doubt else row.by,
        ]
        for row in rows
    ]
    header = ("figure", "verdict", "then", "its spread", "now", "interval", "by")
    # First: what is not the same is no reproduction of it.
    differences = list(_differences(now, then))
    for text in differences:
        yield from wrapped(text, canvas)
    if differences:
        yield ""
    yield from table(header, cells, canvas, right=(2, 4))
    busy = [when for result, when in ((then, "then"), (now, "now")) if result.was_busy]
    if busy:
        yield ""
        text = f"the machine was busy with other work {' and '.join(busy)}: measure again when it is not"
        yield from wrapped(text, canvas, "", styles.FAINT)


def _differences(now: "Result", then: "Result") -> Iterator[str]:
    """What is not as it was then: the machine, versions, and Assay itself."""
    from assay.bench.claims.reproducing import machine_text

    if now.machine["fingerprint"] != then.machine["fingerprint"]:
        yield f"another machine: {machine_text(then)} then, {machine_text(now)} now"
    commits = {"Assay's commit": (then.commit, now.commit)}
    versions = {name: (then.versions.get(name, new), new) for name, new in now.versions.items()}
    for name, (old, new) in (commits | versions).items():
        if old != new:
            yield f"{name}: {old or 'unknown'} then, {new or 'unknown'} now"
