"""`assay runs`: stored runs, listed, shown and compared."""

import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from assay.cli import options, styles
from assay.cli.declaring import argument
from assay.cli.output import Canvas, Line, Part, Report, facts, report_of, table, wrapped
from assay.intervals import Interval
from assay.report.words import metric_name, metric_unit, setting, shown
from assay.runs.stored import compare_runs, list_runs, show_run

Run = Annotated[str, argument("RUN", "A run: its id or the start of it, its folder, or latest.")]


def when(at: float | None) -> str:
    """A time as people read it, in UTC.

    >>> when(0), when(None)
    ('1970-01-01 00:00:00', '-')
    """
    if at is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def figure(interval: Mapping[str, float] | None, unit: str) -> str:
    """A figure with its interval, from JSON.

    >>> figure({"value": 1.5, "lo": 1.4, "hi": 1.6}, "x")
    '1.500x (1.400 to 1.600)'
    """
    if not interval or None in (interval.get("value"), interval.get("lo"), interval.get("hi")):
        return "-"
    return shown(Interval(interval["value"], interval["lo"], interval["hi"]), unit)


def metric_figure(interval: Mapping[str, float] | None, metric: str | None) -> str:
    """A figure of a metric, with the names and units that reports have."""
    if metric is None or not interval:
        return "-"
    return f"{metric_name(metric)} {figure(interval, metric_unit(metric))}"


def runs_list_command(as_json: options.Json = False) -> Report:
    """List the stored runs of assay run, the latest first.

    Runs are stored in the folder runs of the scratch folder (assay cache names it). A run is
    under way, finished, interrupted (assay run --resume goes on with it, assay rollback ends it),
    rolled back, or damaged: its journal was edited.
    """
    stored = list_runs()
    rows = stored.runs

    def text(canvas: Canvas) -> Iterator[Line]:
        yield f"{stored.path}: {len(rows)} stored" if rows else "no stored runs"
        if not rows:
            yield "assay run makes one"
            return
        yield ""
        cells: list[tuple[Part, ...]] = [
            (
                (row["run"], styles.NAME),
                when(row["started_at"]),
                row["status"],
                row["verdict"] or ("-", styles.FAINT),
                figure(row["ratio"], "x"),
                ", ".join(row["kept"]) or ("-", styles.FAINT),
            )
            for row in rows
        ]
        header = ("run", "started", "status", "verdict", "ratio", "kept")
        yield from table(header, cells, canvas)

    return report_of(stored, text, as_json)


def runs_show_command(run: Run, as_json: options.Json = False) -> Report:
    """Show a run: what it was about, every verdict, the settings before and after, the journal.

    The figures are those that the journal records; assay verify-report RUN derives them again from
    the measured blocks. Exits with 2 where the journal was edited.
    """
    details = show_run(run)
    return report_of(details, lambda canvas: _run_lines(details.details, canvas), as_json)


def _run_lines(run: dict[str, Any], canvas: Canvas) -> Iterator[Line]:
    metric = run["metric"]
    yield from facts(
        [
            ("run", run["run"]),
            ("status", run["status"]),
            ("started", when(run["started_at"])),
            ("engine", str(run["engine"] or "")),
            ("model", str(run["model"] or "")),
            ("device", str(run["device"] or "")),
            ("workload", str(run["workload"] or "")),
            ("verdict", run["verdict"] or ""),
            ("baseline", metric_figure(run["baseline"], metric) if run["baseline"] else ""),
            ("final", metric_figure(run["final"], metric) if run["final"] else ""),
            ("ratio", figure(run["ratio"], "x") if run["ratio"] else ""),
            ("kept", ", ".join(run["kept"])),
            ("measured", f"{run['blocks']:,} blocks in {run['experiments']:,} experiments"),
            ("journal", run["journal"]["status"]),
            ("folder", run["path"]),
        ],
        canvas,
    )
    if run["verdicts"]:
        yield ""
        rows: list[tuple[Part, ...]] = [
            (
                (str(verdict["experiment"]), styles.NAME),
                str(verdict["verdict"]),
                figure(verdict["ratio"], "x"),
                verdict["reason"] or "",
            )
            for verdict in run["verdicts"]
        ]
        yield from table(("experiment", "verdict", "ratio", "reason"), rows, canvas)
    yield from _settings(run["start"], run["settings"], canvas)
    for title, texts in (
        ("rolled back", [str(rollback["why"]) for rollback in run["rollbacks"]]),
        ("degraded", [str(degradation) for degradation in run["degradations"]]),
    ):
        for text in texts:
            yield ""
            yield from wrapped(f"{title}: {text}", canvas)


def _settings(
    start: dict[str, Any] | None, now: dict[str, Any] | None, canvas: Canvas
) -> Iterator[Line]:
    if not start or not now:
        return
    changed = [name for name in now if start.get(name) != now[name]]
    yield ""
    if not changed:
        yield (("settings: as at the start", styles.FAINT),)
        return
    rows: list[tuple[Part, ...]] = [
        ((name, styles.NAME), setting(start.get(name)), setting(now[name])) for name in changed
    ]
    yield from table(("setting", "start", "now"), rows, canvas)


def runs_compare_command(
    first: Run,
    second: Annotated[str, argument("OTHER", "The run to compare it with.")],
    as_json: options.Json = False,
) -> Report:
    """Compare two runs: fingerprints, settings, figures and what was kept.

    Figures of runs with different fingerprints (another model, machine, engine release or workload)
    are not comparable; a note says so.
    """
    compared = compare_runs(first, second)
    return report_of(
        compared, lambda canvas: _comparison_lines(compared.differences, canvas), as_json
    )


def _comparison_lines(comparison: dict[str, Any], canvas: Canvas) -> Iterator[Line]:
    yield from facts(zip("AB", comparison["runs"], strict=True), canvas)
    metric = comparison["metric"]
    unit = metric_unit(metric) if metric else ""
    if metric:
        yield from facts([("metric", metric_name(metric))], canvas)
    yield ""
    rows: list[tuple[Part, ...]] = [
        (("status", styles.NAME), *map(str, comparison["status"])),
        (("verdict", styles.NAME), *(str(text or "-") for text in comparison["verdict"])),
    ]
    rows += [
        ((name, styles.NAME), *(figure(value, "x" if name == "ratio" else unit) for value in pair))
        for name, pair in comparison["figures"].items()
    ]
    rows.append((("kept", styles.NAME), *("; ".join(texts) or "-" for texts in comparison["kept"])))
    yield from table(("", "A", "B"), rows, canvas)
    for title, differences in (
        ("fingerprint", comparison["fingerprint"]),
        ("settings at the start", comparison["start"]),
        ("settings at the end", comparison["settings"]),
    ):
        yield ""
        if not differences:
            yield ((f"{title}: equal", styles.FAINT),)
            continue
        cells: list[tuple[Part, ...]] = [
            ((name, styles.NAME), setting(pair[0]), setting(pair[1]))
            for name, pair in differences.items()
        ]
        yield from table((title, "A", "B"), cells, canvas)
