"""What people write on the command line: workloads, SLOs, objectives, durations, rates, targets."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError, unknown_name
from assay.load.workloads import builtin
from assay.load.workloads.arrivals import with_rate
from assay.load.workloads.reading import read_requests
from assay.load.workloads.texts import CountTokens
from assay.load.workloads.workload import Direction, Objective, ServiceLevel, Workload

_SECONDS: Final = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip
_PART: Final = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)(ns|us|ms|min|s|m|h|d)")
_NUMBER: Final = re.compile(r"\d{1,12}(?:\.\d{1,12})?")


def parse_duration(what: str, text: str | float, *, unit: str | None = "s") -> float:
    """Seconds of a duration such as 20m, 1h30m or 250ms; a bare number is in `unit`, or refused without.

    >>> parse_duration("--budget", "1h30m")
    5400.0
    """
    given = str(text).strip().lower()
    if _NUMBER.fullmatch(given):
        if unit is None:
            raise InputError(
                f"{what}: expected a duration with its unit, got {given[:40]!r}",
                ", ".join(f"{given[:40]}{each}" for each in ("s", "m", "h")) + f" or {given[:40]}d",
            )
        seconds = float(given) * _SECONDS[unit]
    else:
        seconds, end = 0.0, 0
        while matched := _PART.match(given, end):
            seconds += float(matched[1]) * _SECONDS[matched[2]]
            end = matched.end()
        if not given or end < len(given):
            raise InputError(
                f"{what}: expected a duration, got {given[:40]!r}", "write 90s, 20m, 1h30m or 2d"
            )
    if not 0 < seconds < math.inf:
        raise InputError(f"{what}: expected more than no time, got {given[:40]!r}")
    return seconds


def parse_slo(what: str, text: str) -> ServiceLevel:
    """Service-level objectives: `ttft=1s,tpot=50ms`, or `ttft:1000 tpot:50` in milliseconds.

    The second form is that of `vllm bench serve --goodput`; a bare number is in milliseconds in
    both.

    >>> parse_slo("--slo", "ttft=1s,tpot=50ms")
    ServiceLevel(ttft_ms=1000.0, tpot_ms=50.0, e2el_ms=None)
    """
    limits: dict[str, float] = {}
    for part in text.replace(",", " ").split():
        name, sign, value = part.partition("=" if "=" in part else ":")
        key = f"{name.lower()}_ms"
        if not sign or not value:
            raise InputError(f"{what}: expected NAME=TIME, got {part[:40]!r}", _SLO_HINT)
        if key not in ServiceLevel.__dataclass_fields__:
            raise unknown_name(f"metric of {what}", name[:40], ("ttft", "tpot", "e2el"))
        if key in limits:
            raise InputError(f"{what}: expected {name} once, got it twice")
        limits[key] = 1e3 * parse_duration(f"{what} {name}", value, unit="ms")
    if not limits:
        raise InputError(f"{what}: expected at least one limit, got {text[:40]!r}", _SLO_HINT)
    return ServiceLevel(**limits)


_SLO_HINT: Final = "write --slo ttft=1s,tpot=50ms,e2el=20s"

_RATE: Final = re.compile(r"(\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d)?)(?:/(s|m|min|h|d))?")


def parse_rate(what: str, text: str | float) -> float | None:
    """Requests per second: `4`, `0.5/s`, `120/min`; `inf` is None, all at once.

    >>> parse_rate("--rate", "120/min"), parse_rate("--rate", "1e3")
    (2.0, 1000.0)
    """
    given = str(text).strip().lower()
    if given == "inf":
        return None
    matched = _RATE.fullmatch(given)
    if not matched or float(matched[1]) <= 0:
        raise InputError(
            f"{what}: expected requests per second above 0, got {given[:40]!r}",
            "write 4, 0.5/s or 120/min; inf sends all at once",
        )
    return float(matched[1]) / _SECONDS[matched[2] or "s"]


def parse_bursts(what: str, text: str) -> tuple[float, float]:
    """Seconds that requests arrive, and seconds of rest: `2s/8s`.

    >>> parse_bursts("--bursts", "2s/500ms")
    (2.0, 0.5)
    """
    on, sign, off = text.partition("/")
    if not sign:
        raise InputError(f"{what}: expected ON/OFF, got {text[:40]!r}", "write 2s/8s")
    return parse_duration(what, on), parse_duration(what, off)


_SHARE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)(%?)")


def parse_share(what: str, text: str | float) -> float:
    """A share such as 15% or 0.15; 15 alone may mean either, and is refused.

    >>> parse_share("--target", "15%")
    0.15
    """
    matched = _SHARE.fullmatch(str(text).strip())
    share = float(matched[1]) / (100 if matched[2] else 1) if matched else 0.0
    if share <= 0:
        raise InputError(
            f"{what}: expected a share above 0, got {str(text)[:40]!r}", "write 15% or 0.15"
        )
    if matched is not None and not matched[2] and share > 1:
        raise InputError(
            f"{what}: expected a percentage, or a number of at most 1, got {str(text)[:40]!r}",
            f"write {share:g}% or {100 * share:g}%",
        )
    return share


def parse_fraction(what: str, text: str | float) -> float:
    """A rate such as 1/200, 0.5% or 0.005.

    >>> parse_fraction("--max-changed", "1/200"), parse_fraction("--max-changed", "2%")
    (0.005, 0.02)
    """
    counts = _FRACTION.fullmatch(str(text).strip())
    if counts is None or int(counts[2]) == 0:
        return parse_share(what, text)
    return int(counts[1]) / int(counts[2])


_FRACTION: Final = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})")

HIGHER_IS_BETTER: Final = (
    "output_throughput", "total_token_throughput", "request_throughput", "request_goodput",
)  # fmt: skip
"""Figures of a window that should be high."""

_ALIASES: Final = {
    "throughput": "output_throughput",
    "goodput": "request_goodput",
    **{name: f"mean_{name}_ms" for name in ("ttft", "tpot", "itl", "e2el")},
}
_LATENCY: Final = re.compile(r"(mean|median|std|p\d{1,2}(?:\.\d{1,3})?)_(ttft|tpot|itl|e2el)_ms")


def parse_objective(what: str, text: str) -> Objective:
    """The figure to improve, named as `vllm bench serve` does, and its direction.

    >>> parse_objective("--metric", "p99_ttft_ms")
    Objective(metric='p99_ttft_ms', better='lower')
    """
    name = _ALIASES.get(text.strip().lower(), text.strip().lower())
    better: Direction = "higher" if name in HIGHER_IS_BETTER else "lower"
    if better == "lower" and not _LATENCY.fullmatch(name):
        known = [*HIGHER_IS_BETTER, "mean_ttft_ms", "mean_tpot_ms", "p99_ttft_ms", "p99_itl_ms",
                 "mean_e2el_ms", *_ALIASES]  # fmt: skip
        raise unknown_name(f"metric of {what}", text[:40], known)
    return Objective(name, better)


def parse_workload(text: str, **options: Any) -> Workload:
    """The workload of a name or a file; `options` are those of `builtin.workload`.

    A file is read in any of the formats that `readers` knows. It takes `requests` (at most so
    many), `rate` with `burstiness` or `bursts` (instead of recorded times), `concurrency` (with
    recorded times, a cap), `slo`, `objective`, `seed`, `count`, and of its own `format` and `time_scale`.
    """
    if text in builtin.BUILT_IN:
        return builtin.workload(text, **_without(options, ("format", "time_scale"), text))
    if not Path(text).exists():
        error = unknown_name("workload", text[:80], builtin.NAMES)
        raise InputError(
            f"workload: expected a name or a file of requests, got {text[:80]!r}",
            error.hint or f"one of: {', '.join(builtin.NAMES)}, or a file",
        )
    return _of_file(text, **_without(options, ("input_tokens", "output_tokens", "scale"), text))


def _without(options: dict[str, Any], names: tuple[str, ...], workload: str) -> dict[str, Any]:
    """The options without these names; one that is set would change nothing, and is refused."""
    for name in names:
        if options.get(name) not in (None, 1.0):
            kind = "a built-in workload" if "format" in names else "a file of requests"
            raise InputError(f"{name}: expected none with {kind}, got it for {workload[:80]!r}")
    return {name: value for name, value in options.items() if name not in names}


def _of_file(
    path: str,
    *,
    requests: int | None = None,
    rate: float | None = None,
    burstiness: float = 1.0,
    bursts: tuple[float, float] | None = None,
    concurrency: int | None = None,
    slo: ServiceLevel | None = None,
    objective: Objective | None = None,
    seed: int = 0,
    count: CountTokens | None = None,
    format: str | None = None,
    time_scale: float | None = None,
) -> Workload:
    scale = 1.0 if time_scale is None else time_scale
    read = read_requests(path, format, requests, scale, seed, count=count)
    if concurrency is not None and concurrency < 1:
        raise InputError(f"concurrency: expected at least 1, got {concurrency}")
    read = with_rate(read, rate, burstiness, bursts, concurrency, seed)
    return replace(
        read,
        concurrency=concurrency or read.concurrency,
        slo=slo or read.slo,
        objective=objective or read.objective,
    )
