"""The answer of `assay load` as text."""

from collections.abc import Iterator
from typing import Any, Final

from assay.cli import styles
from assay.cli.output import Canvas, Line, Part, count, facts, table

_LATENCIES: Final = (("ttft", "TTFT"), ("tpot", "TPOT"), ("itl", "ITL"), ("e2el", "E2EL"))
_STYLES: Final = {"stable": styles.GOOD, "backlogged": styles.WARN, "overloaded": styles.BAD}
_SHOWN_ERRORS: Final = 5


def window_text(data: dict[str, Any], canvas: Canvas) -> Iterator[Line]:
    """One window: what was sent, the load state, throughput, latencies, errors."""
    figures = data["figures"]
    yield from facts(_facts(data), canvas)
    state = data["load_state"]
    yield (("state     ", styles.FAINT), (state, _STYLES[state]))
    yield ""
    yield from _rates(data, canvas)
    if rows := [row for name, label in _LATENCIES if (row := _row(data, name, label))]:
        yield ""
        titles = ("ms", "mean", "95 % interval", "p50", "p90", "p99")
        yield from table(titles, rows, canvas, right=(1, 2, 3, 4, 5))
    elif data["unscored"]:
        yield ""
        yield (
            "latencies are not given: in an overloaded window they grow with its length; "
            "lower --rate, or see unscored in --json"
        )
    if figures["failed"]:
        yield ""
        errors: list[tuple[Part, ...]] = [
            ((f"{number:,}", styles.BAD), error)
            for error, number in list(data["errors"].items())[:_SHOWN_ERRORS]
        ]
        yield from table(("failed", "error"), errors, canvas, right=(0,))
    if data["output"]:
        yield ""
        yield ("written to ", (data["output"], styles.VALUE))


def _facts(data: dict[str, Any]) -> list[tuple[str, str]]:
    figures = data["figures"]
    done, failed = int(figures["completed"]), int(figures["failed"])
    share = data["client_cpu_share"]
    late = data["p99_lateness_ms"]
    return [
        ("server", f"{data['url']}{data['interface']}"),
        ("model", data["model"]),
        ("workload", f"{data['workload']}: {data['description']}"),
        ("arrivals", _arrivals(data)),
        (
            "window",
            f"{data['seconds']:,.1f} s, {count(done, 'request')} answered, {failed:,} failed; "
            f"{figures['total_input_tokens']:,.0f} input tokens, "
            f"{figures['total_output_tokens']:,.0f} output tokens",
        ),
        ("queue", _queue(data["queue"], data["arrival"])),
        (
            "client",
            ("" if share is None else f"{share:.0%} of a core")
            + ("" if late is None else f", sent {late:.2f} ms after schedule at p99"),
        ),
    ]


def _arrivals(data: dict[str, Any]) -> str:
    width = data["concurrency"]
    if data["arrival"] == "closed":
        return f"closed loop, {count(width, 'request')} at once"
    rate = "" if data["rate"] is None else f", {data['rate']:.4g} requests/s"
    limit = "" if width is None else f", at most {width:,} at once"
    return f"open loop ({data['arrival']}){rate}{limit}"


def _queue(queue: dict[str, Any], arrival: str) -> str:
    waits = f"two or more waited for their first token {queue['waiting_share']:.0%} of the time"
    if arrival == "closed":
        # It cannot grow: requests follow the ends of others.
        return waits
    if queue["growth"] is None:
        return f"{queue['note']}; {waits}" if queue["note"] else waits
    return f"{max(queue['growth'], 0.0):.1%} of the requests that arrived piled up; {waits}"


def _rates(data: dict[str, Any], canvas: Canvas) -> list[Line]:
    figures, sure = data["figures"], data["intervals"]
    rows: list[tuple[Part, ...]] = []
    for key, label, unit in (
        ("output_throughput", "output", "tokens/s"),
        ("total_token_throughput", "input and output", "tokens/s"),
        ("request_throughput", "requests", "requests/s"),
        ("request_goodput", "goodput", "requests/s"),
    ):
        if key not in figures:
            continue
        bounds = sure.get(key)
        note = f"95 %: {_figure(bounds['lo'])} to {_figure(bounds['hi'])}" if bounds else ""
        if key == "request_goodput":
            limits = ", ".join(f"{name} <= {limit:g} ms" for name, limit in data["slo"].items())
            share = figures[key] / figures["request_throughput"] if figures["completed"] else 0.0
            note = f"{share:.1%} keep {limits}"
        rows.append(((label, styles.NAME), (_figure(figures[key]), styles.VALUE), unit, note))
    return table(("throughput", "", "", ""), rows, canvas, right=(1,))


def _row(data: dict[str, Any], name: str, label: str) -> tuple[Part, ...] | None:
    figures = data["figures"]
    if f"mean_{name}_ms" not in figures:
        return None
    bounds = data["intervals"].get(f"mean_{name}_ms")
    interval = "" if bounds is None else f"{_figure(bounds['lo'])} to {_figure(bounds['hi'])}"
    return (
        (label, styles.NAME),
        (_figure(figures[f"mean_{name}_ms"]), styles.VALUE),
        interval,
        *(_figure(figures[f"p{percentile}_{name}_ms"]) for percentile in (50, 90, 99)),
    )


def _figure(value: float) -> str:
    """Three digits at least, and no more than two after the point.

    >>> _figure(1234.5), _figure(12.345), _figure(0.1234)
    ('1,234', '12.35', '0.123')
    """
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"


def find_text(data: dict[str, Any], canvas: Canvas) -> Iterator[Line]:
    """The answer of a search, and every load that was measured."""
    limits = ", ".join(f"{name} <= {limit:g} ms" for name, limit in data["slo"].items())
    best, above = data["best"], data["above"]
    pairs = [
        ("server", data["url"]),
        ("model", data["model"]),
        ("workload", data["workload"]),
        ("SLO", f"{limits}, kept by {data['least_share']:.4g} of requests or more"),
    ]
    yield from facts(pairs, canvas)
    yield ""
    if best is not None:
        held = best["attainment"]
        yield (
            (f"{data['find']}  ", styles.NAME),
            (f"{best['load']:.4g} {best['unit']}", styles.VALUE),
            f": {held['value']:.1%} keep the SLO (95 %: at least {held['lo']:.1%}), "
            f"{_figure(best['figures']['output_throughput'])} output tokens/s",
        )
        if above is not None:
            yield (
                f"at {above['load']:.4g} {above['unit']} it does not hold: ",
                (above["binds"], styles.WARN),
                " binds",
            )
        yield ""
    rows: list[tuple[Part, ...]] = [_point(point) for point in data["points"]]
    yield "every load that was measured, in order; latencies are p90 of the last window"
    titles = ("load", "holds", "keep SLO", "95 % bounds", "TTFT ms", "TPOT ms", "binds")
    yield from table(titles, rows, canvas, right=(0, 2, 4, 5))


def _point(point: dict[str, Any]) -> tuple[Part, ...]:
    share, figures = point["attainment"], point["figures"]
    holds = {
        True: ("yes", styles.GOOD),
        False: ("no", styles.BAD),
        None: ("undecided", styles.WARN),
    }[point["holds"]]
    is_scored = point["load_state"] != "overloaded"

    def latency(name: str) -> str:
        key = f"p90_{name}_ms"
        return _figure(figures[key]) if key in figures else ""

    return (
        (
            f"{point['load']:.4g}{'/s' if point['unit'] == 'requests/s' else ' at once'}",
            styles.NAME,
        ),
        holds,
        f"{share['value']:.1%}" if is_scored else "",
        f"{share['lo']:.1%} {share['hi']:.1%}" if is_scored else "",
        latency("ttft"),
        latency("tpot"),
        "" if point["holds"] else point["binds"],
    )
