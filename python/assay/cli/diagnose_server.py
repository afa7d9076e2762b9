"""`assay diagnose --url`: a server that is already running."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from assay.cli import styles
from assay.cli.diagnose_text import causes_table, microseconds, violations_table, waterfall
from assay.cli.output import Canvas, Line, Part, Report, count, facts, report_of, table, working

if TYPE_CHECKING:
    from assay.diagnose.live.diagnosis import ServerDiagnosis


def server_report(
    url: str, *, duration_s: float | None, most_at_once: int | None, as_json: bool, **given: Any
) -> Report:
    """Watch and probe the server, and lay out what was found."""
    from assay.diagnose.live import diagnose_server

    if duration_s is not None:
        given["duration_s"] = duration_s
    if most_at_once is not None:
        given["most_at_once"] = most_at_once
    with working(f"asking {url}") as progress:
        diagnosis = diagnose_server(url, progress=progress, **given)
    return report_of(
        diagnosis, lambda canvas: _text(diagnosis, canvas), as_json, details=diagnosis.assumptions
    )


def _text(diagnosis: "ServerDiagnosis", canvas: Canvas) -> Iterator[Line]:
    data = diagnosis.to_json()
    yield from facts(_facts(data), canvas)
    yield ""
    yield from waterfall(data, canvas)
    if data["causes"]:
        yield ""
        yield from causes_table(data["causes"], canvas, "range")
    if broken := [
        violation for violation in data["violations"] if violation["verdict"] == "violated"
    ]:
        yield ""
        yield from violations_table(broken, canvas)
    yield ""
    yield from _at_once(data["concurrency"], canvas)
    yield ""
    yield from _first_tokens(data["ttft"], canvas)


def _facts(data: dict[str, Any]) -> list[tuple[str, str]]:
    others = data["batch"] - 1
    beside = f", beside {count(others, 'request')} of others" if others else ""
    probes = data["probes"]
    return [
        ("server", f"{data['url']}, {data['server'] or 'without metrics'}"),
        ("model", data["model"]),
        ("GPU", data["gpu"] or "not known"),
        (
            "step",
            f"decode, {count(data['batch'], 'sequence')}, context {data['context']:,}{beside}",
        ),
        ("observed", f"{data['step_ns'] / 1e6:,.3f} ms for each token, one request at a time"),
        ("predicted", _range(data["predicted_ns"], data["lo"], data["hi"])),
        ("floor", "" if data["floor_ns"] is None else f"{data['floor_ns'] / 1e6:,.3f} ms"),
        ("load", _load(data["watched"])),
        ("probes", f"{count(probes['requests'], 'request')}, {probes['tokens']:,} tokens"),
    ]


def _load(watched: dict[str, Any]) -> str:
    """What the server did before it was probed."""
    tokens = watched.get("engine_generation_tokens")
    if tokens is None:
        return ""
    parts = [f"{tokens / max(watched['seconds'], 1e-9):,.0f} tokens/s"]
    for name, label in (
        ("engine_requests_running", "running"),
        ("engine_requests_waiting", "waiting"),
    ):
        if name in watched:
            parts.append(f"{watched[name]['mean']:.1f} {label}")
    if "engine_kv_cache_usage" in watched:
        parts.append(f"KV cache {watched['engine_kv_cache_usage']['max']:.0%} at most")
    return ", ".join(parts)


def _range(expected: float | None, lo: float | None, hi: float | None) -> str:
    if expected is None or lo is None or hi is None:
        return ""
    return f"{expected / 1e6:,.3f} ms ({lo / 1e6:,.3f} to {hi / 1e6:,.3f})"


def _at_once(rows: list[dict[str, Any]], canvas: Canvas) -> list[Line]:
    cells: list[tuple[Part, ...]] = [
        (
            (str(row["concurrency"]), styles.NAME),
            (microseconds(row["tpot_ns"]), styles.VALUE),
            f"{row['ttft_ns'] / 1e6:,.1f}",
            f"{row['tokens_per_second']:,.0f}",
            _range(row["predicted_ns"], row["lo"], row["hi"]),
        )
        for row in rows
    ]
    titles = ("at once", "TPOT us", "TTFT ms", "tokens/s", "predicted step")
    return table(titles, cells, canvas, right=(0, 1, 2, 3))


def _first_tokens(rows: list[dict[str, Any]], canvas: Canvas) -> list[Line]:
    cells: list[tuple[Part, ...]] = [
        (
            (f"{row['prompt_tokens']:,}", styles.NAME),
            (f"{row['observed_ns'] / 1e6:,.1f}", styles.VALUE),
            _range(row["predicted_ns"], row["lo"], row["hi"]),
        )
        for row in rows
    ]
    return table(("prompt tokens", "TTFT ms", "predicted"), cells, canvas, right=(0, 1))
