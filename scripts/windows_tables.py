"""Measured windows of servers beside predictions of them, as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from assay.planner.questions import predict_load
from assay.validate.served_windows import BARS, Compared, ServedWindows

COLUMNS = ("rate", "p50 ttft", "p99 ttft", "p50 tpot", "p99 tpot")
HEADER = "| requests/s | TTFT p50, ms | p99 | TPOT p50, ms | p99 |"


def windows_table(answers: Sequence[tuple[str, ServedWindows]]) -> str:
    """A row a window, predicted over measured; by model."""
    lines = [f"| server, lengths, load | requests {HEADER}", f"|---|---|{'---|' * len(COLUMNS)}"]
    for model, answer in answers:
        lines += _rows(model, answer.figures)
    return "\n".join([*lines, "", *(_counted(model, answer) for model, answer in answers)])


def _rows(model: str, figures: Sequence[Compared]) -> Iterator[str]:
    windows: dict[tuple[str, str, float | None], dict[str, Compared]] = {}
    for row in figures:
        windows.setdefault((row.server, row.scenario, row.rate), {})[row.figure] = row
    for (server, scenario, rate), own in windows.items():
        load = "saturated" if rate is None else f"{rate:g}/s"
        cells = [_cell(own[name]) if name in own else "" for name in COLUMNS]
        count = next(iter(own.values())).requests
        yield f"| {server}, {model} {scenario}, {load} | {count} | {' | '.join(cells)} |"


def _cell(row: Compared) -> str:
    text = f"{_digits(row.predicted)} / {_digits(row.measured)} ({100 * row.error:+.0f} %)"
    text = text if row.is_met else f"**{text}**"
    return f"{text} *" if row.is_fitted else text


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _counted(model: str, answer: ServedWindows) -> str:
    shown = [row for row in answer.figures if row.figure in COLUMNS]
    fresh = [row for row in shown if not row.is_fitted]
    replayed = [row for row in shown if row.replayed is not None]
    near = sum(abs((row.replayed or 0.0) / row.measured - 1) <= row.bar for row in replayed)
    return (
        f"{model}: {_met(shown)} of {len(shown)} within their bars, {_met(fresh)} of {len(fresh)} of those in no fit; "
        f"of {len(replayed)} that have a closed form it is within {_met(replayed)}, the replay (`--simulate`) {near}.\n"
    )


def _met(rows: Sequence[Compared]) -> int:
    return sum(row.is_met for row in rows)


def open_loop_table(file: Path) -> str:
    """`assay predict-load` beside vLLM that is driven in process."""
    data: dict[str, Any] = json.loads(file.read_bytes())
    runs = data["runs"]
    answer = predict_load("llama-3.1-8b", "h200_sxm", [run["offered_req_s"] for run in runs])
    lines = [
        "| requests/s | requests | TTFT p50, ms | p99 | TPOT p50, ms | p99 | E2E p50, s | p99 |",
        f"|---|---|{'---|' * 6}",
    ]
    for run, row in zip(runs, answer.rates, strict=True):
        cells = [
            _pair(scale * getattr(predicted, level), scale * run[measured][level], BARS[level])
            for predicted, measured, scale in (
                (row.first_token, "ttft_s", 1e3), (row.output_token, "mean_itl_s", 1e3),
                (row.end_to_end, "e2e_s", 1.0),
            )
            for level in ("p50", "p99")
        ]  # fmt: skip
        lines.append(f"| {row.rate:.3g} | {run['requests']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _pair(predicted: float, measured: float, bar: float) -> str:
    error = predicted / measured - 1
    text = f"{predicted:.3g} / {measured:.3g} ({100 * error:+.0f} %)"
    return text if abs(error) <= bar else f"**{text}**"
