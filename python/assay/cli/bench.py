"""`assay bench run`: measured figures with their ceilings and rivals."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, table, working, wrapped
from assay.errors import AssayError, CheckFailedError, InputError, NoDataError

if TYPE_CHECKING:
    from assay.bench import Comparison, Result

SERVING = "serving"
"""Servers are measured whole: their windows are no cases of the harness."""

Tolerance = Annotated[
    float, option("--tolerance SHARE", "Relative change below which a figure counts as unchanged.")
]
FailOnRegression = Annotated[
    bool,
    option(
        "--fail-on-regression",
        "End with exit code 1 if a figure regressed or cannot be compared, with 3 if its value and its ratio "
        "to a reference contradict each other.",
    ),
]
Markdown = Annotated[bool, option("--markdown", "Print a Markdown table.")]
Columns = Annotated[
    str | None,
    option(
        "--columns NAMES",
        "Quantiles of the samples as columns, ours and rivals': min, p10, p50, p90, p99, max, with commas.",
    ),
]
RivalPython = Annotated[
    Path | None,
    option(
        "--rival-python PYTHON",
        "Run the rivals of a workload in this interpreter, of an environment that has their packages.",
    ),
]
Seconds = Annotated[
    float | None,
    option(
        "--seconds SECONDS",
        "Seconds of rounds of each case, which its seeds share: 2.5 (1 on a GPU, 0.12 with --quick) "
        "unless given here or by the claim. More rounds make intervals narrower.",
    ),
]


def check_tolerance(tolerance: float) -> None:
    """Refuse what is no share."""
    if not 0.0 <= tolerance < 1.0:
        raise InputError(f"--tolerance: expected a share from 0 to 1, got {tolerance:g}")


def bench_run_command(
    claim: Annotated[
        str,
        argument(
            "CLAIM",
            "What to measure: a bench.toml or its folder, the name of a claim in bench/claims, a "
            "workload (order-book, order-book-feed, perception, protein), or a suite: ceilings, ops, gemm, "
            "gemv, attention, decode, speculation, pool, "
            "scheduler, sharing (two models), graph, tracing (its overhead), trace (reading traces), "
            "load (the client of assay load), improve (searches and experiments over recorded "
            "blocks), speech (to text and back), order-book-latency (beside a flood) or serving "
            "(servers side by side).",
        ),
    ],
    device: Annotated[
        str | None,
        option("--device DEVICE", "Device to measure: cpu or cuda:0. The claim's if not given."),
    ] = None,
    quick: Annotated[
        bool, option("--quick", "Small sizes and few samples: a smoke test, not a measurement.")
    ] = False,
    sizes: Annotated[
        str | None,
        option(
            "--sizes SIZES",
            "Sizes instead of the suite's, such as 512,64x1Kx1K: K, M and G multiply by 1024, and "
            "numbers alone are taken as they are.",
        ),
    ] = None,
    dtypes: Annotated[
        str | None, option("--dtypes DTYPES", "Element types or formats, such as bf16,q8_0.")
    ] = None,
    model: Annotated[
        str | None, option("--model MODEL", "Model to decode: a file, a folder or a name.")
    ] = None,
    rival: Annotated[
        list[str] | None,
        option(
            "--rival NAME",
            "Compare decoding with llama.cpp or transformers, serving with vllm or llama.cpp, or "
            "speech with faster-whisper, whisper.cpp, onnxruntime or torch. May be repeated; if not "
            "given, decoding and speech with all of them that are installed.",
        ),
    ] = None,
    rival_python: RivalPython = None,
    case: Annotated[
        list[str] | None,
        option("--case TEXT", "Measure only cases whose name contains TEXT. May be repeated."),
    ] = None,
    seeds: Annotated[
        int | None, option("--seeds COUNT", "Seeds of the inputs, which share the time of a run.")
    ] = None,
    seconds: Seconds = None,
    knob: Annotated[
        list[str] | None, option("--knob NAME=VALUE", "A setting of a workload. May be repeated.")
    ] = None,
    save: Annotated[
        Path | None, option("--save FILE", "Write the result as JSON, after each case.")
    ] = None,
    compare: Annotated[
        Path | None, option("--compare FILE", "Compare with a saved result.")
    ] = None,
    tolerance: Tolerance = 0.05,
    fail_on_regression: FailOnRegression = False,
    columns: Columns = None,
    markdown: Markdown = False,
    as_json: options.Json = False,
) -> Report:
    """Measure a claim or a suite, with ceilings and rivals.

    Every figure is the median over rounds that interleave our code, the ceiling and the rivals.
    Results are checked in the same run; a wrong result ends with exit code 1.
    """
    if fail_on_regression and compare is None:
        raise InputError("--fail-on-regression needs --compare", "--compare FILE")
    check_tolerance(tolerance)
    if claim == SERVING:
        for option, value in (
            ("--sizes", sizes),
            ("--dtypes", dtypes),
            ("--compare", compare),
            ("--rival-python", rival_python),
            ("--seconds", seconds),
        ):
            if value is not None:
                raise InputError(f"{option}: expected none for the suite serving, got {value}")
        if save is not None:
            require_writable(save)
        from assay.cli.bench_serving import bench_serving

        return bench_serving(
            device or "cpu", model, rival or (), case or (), quick=quick, save=save, as_json=as_json
        )
    from assay import bench
    from assay.bench.claims import reading, running
    from assay.bench.harness.comparison import check_comparable
    from assay.bench.harness.table import columns_of, markdown as as_markdown
    from assay.engine.loading.user_knobs import read_knobs

    shown = columns_of(columns)
    named = reading.claim_named(claim)
    asked = running.Asked(
        device=device,
        quick=quick,
        sizes=sizes,
        dtypes=dtypes,
        model=model,
        rivals=rival or (),
        cases=case or (),
        seeds=seeds,
        seconds=seconds,
        settings=read_knobs(knob or ()),
        rival_python=rival_python,
    )
    prepared = running.prepare(named, asked)
    # Measuring takes minutes: check the files first.
    earlier = None if compare is None else bench.load(compare, is_judged=fail_on_regression)
    if earlier is not None:
        check_comparable(named.suite, earlier, claim)
    if save is not None:
        require_writable(save)
    with working(f"measuring {claim}", log=True) as progress:
        result = prepared.measure(progress, save)
    compared = None if earlier is None else bench.compare(result, earlier, tolerance)
    data: dict[str, Any] = result.to_data()
    if compared is not None:
        data["comparison"] = compared.to_data()
    return Report(
        data,
        lambda canvas: result_text(result, compared, canvas, shown),
        as_json,
        problem_of(result, compared, fail_on_regression),
        notes=seal_notes(earlier),
        raw=as_markdown(result, compared, shown) if markdown else None,
    )


def require_writable(path: Path) -> None:
    """Refuse a file that could not be written after minutes of measuring."""
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"cannot write {path}", "name a file in a writable folder")


def seal_notes(*results: "Result | None") -> list[str]:
    """A line for results of files without a hash of their content: nobody can tell if they were edited."""
    files = dict.fromkeys(result.unsealed for result in results if result and result.unsealed)
    if not files:
        return []
    names = ", ".join(files)
    return [f"not sealed: {names} has no sha256 of its content, so an edit would not be seen"]


def problem_of(
    result: "Result", compared: "Comparison | None", fail_on_regression: bool
) -> AssayError | None:
    """What ends the command with exit code 1, after the table: wrong results, or regressions."""
    wrong = [figure.name for figure in result.figures if not figure.check.passed]
    if wrong:
        return CheckFailedError(f"wrong results: {', '.join(wrong)}")
    if compared is None or not fail_on_regression:
        return None
    for verdict in ("regressed", "invalid"):
        if entries := compared.of(verdict):
            return CheckFailedError(f"{verdict}: {', '.join(entry.name for entry in entries)}")
    contradicted = [entry.name for entry in compared.verdicts if entry.may_be_slower]
    if contradicted:
        return NoDataError(
            f"undecided: value and ratio contradict each other: {', '.join(contradicted)}",
            "measure both again, in turns, on a quieter machine",
        )
    if not compared.verdicts:
        return CheckFailedError("nothing to compare: no figure is in both results")
    return None


def result_text(
    result: "Result", compared: "Comparison | None", canvas: Canvas, columns: Sequence[str] = ()
) -> Iterator[Line]:
    """The table of a result, and the conditions it was measured under."""
    from assay.bench.harness.table import RIGHT, conditions, rows

    header, lines = rows(result, compared, columns)
    yield from table(header, [_styled(line) for line in lines], canvas, right=RIGHT)
    yield ""
    for line in conditions(result):
        yield from wrapped(line, canvas, "", styles.FAINT)
    for line in compared.notes if compared is not None else ():
        yield from wrapped(line, canvas, "", styles.FAINT)
    if compared is not None and compared.only_then:
        missing = f"in the file but not measured: {', '.join(compared.only_then)}"
        yield from wrapped(missing, canvas, "", styles.FAINT)


def _styled(line: list[str]) -> list[Part]:
    name, *rest = line
    return [(name, styles.NAME), *((cell, _STYLES.get(cell.split(" ")[0], "")) for cell in rest)]


_STYLES = {
    "improved": styles.GOOD,
    "regressed": styles.BAD,
    "WRONG": styles.BAD,
    "invalid:": styles.BAD,
}
