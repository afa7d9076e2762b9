"""`assay runs show RUN`: one run, from its journal."""

from collections.abc import Iterator
from typing import Any

from assay.cli import options
from assay.cli.output import (
    FAINT,
    NAME,
    Canvas,
    Line,
    Part,
    Report,
    facts,
    report_of,
    table,
    wrapped,
)
from assay.cli.runs_text import Run, figure, metric_figure, setting, when
from assay.runs.stored import show_run


def runs_show_command(run: Run, as_json: options.Json = False) -> Report:
    """Show a run: what it was about, every verdict, the settings before and after, the journal.

    The figures are those that the journal records; assay verify-report RUN derives them again from
    the measured blocks. Exits with 2 where the journal was edited.
    """
    details = show_run(run)
    return report_of(details, lambda canvas: _lines(details.details, canvas), as_json)


def _lines(found: dict[str, Any], canvas: Canvas) -> Iterator[Line]:
    metric = found["metric"]
    yield from facts(
        [
            ("run", found["run"]),
            ("status", found["status"]),
            ("started", when(found["started_at"])),
            ("engine", str(found["engine"] or "")),
            ("model", str(found["model"] or "")),
            ("device", str(found["device"] or "")),
            ("workload", str(found["workload"] or "")),
            ("verdict", found["verdict"] or ""),
            ("baseline", metric_figure(found["baseline"], metric) if found["baseline"] else ""),
            ("final", metric_figure(found["final"], metric) if found["final"] else ""),
            ("ratio", figure(found["ratio"], "x") if found["ratio"] else ""),
            ("kept", ", ".join(found["kept"])),
            ("measured", f"{found['blocks']:,} blocks in {found['experiments']:,} experiments"),
            ("journal", found["journal"]["status"]),
            ("folder", found["path"]),
        ],
        canvas,
    )
    if found["verdicts"]:
        yield ""
        rows: list[tuple[Part, ...]] = [
            (
                (str(one["experiment"]), NAME),
                str(one["verdict"]),
                figure(one["ratio"], "x"),
                one["reason"] or "",
            )
            for one in found["verdicts"]
        ]
        yield from table(("experiment", "verdict", "ratio", "reason"), rows, canvas)
    yield from _settings(found["start"], found["settings"], canvas)
    for title, texts in (
        ("rolled back", [str(one["why"]) for one in found["rollbacks"]]),
        ("degraded", [str(one) for one in found["degradations"]]),
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
        yield (("settings: as at the start", FAINT),)
        return
    rows: list[tuple[Part, ...]] = [
        ((name, NAME), setting(start.get(name)), setting(now[name])) for name in changed
    ]
    yield from table(("setting", "start", "now"), rows, canvas)
