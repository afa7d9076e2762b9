"""`assay runs show RUN`: one run, from its journal."""

from collections.abc import Iterator
from typing import Any

from assay.cli import options, styles
from assay.cli.output import Canvas, Line, Part, Report, facts, report_of, table, wrapped
from assay.cli.runs_text import Run, figure, metric_figure, setting, when
from assay.runs.stored import show_run


def runs_show_command(run: Run, as_json: options.Json = False) -> Report:
    """Show a run: what it was about, every verdict, the settings before and after, the journal.

    The figures are those that the journal records; assay verify-report RUN derives them again from
    the measured blocks. Exits with 2 where the journal was edited.
    """
    details = show_run(run)
    return report_of(details, lambda canvas: _lines(details.details, canvas), as_json)


def _lines(run: dict[str, Any], canvas: Canvas) -> Iterator[Line]:
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
