"""`assay bench serving`: servers side by side, and the text of their comparison."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from assay.cli import styles
from assay.cli.output import Canvas, Line, Report, report_of, table, working
from assay.errors import InputError

GPU_MODEL: Final = "llama-3-8b-shape"
_HEADER: Final = (
    *("workload", "load", "server", "requests/s", "tokens/s", "goodput"),
    *("ttft p50", "p99", "tpot p50", "p99", "itl p99", "idle", "of floor"),
)


def bench_serving(
    device: str,
    model: str | None,
    rivals: Sequence[str],
    cases: Sequence[str],
    *,
    quick: bool,
    save: Path | None,
    as_json: bool,
) -> Report:
    """Measure the servers and report every window."""
    from assay.bench.serving.comparison import compare_servers
    from assay.bench.serving.users import CASE

    if len(rivals) > 1:
        raise InputError(f"--rival: expected one for serving, got {len(rivals)}")
    if model is None and not device.startswith("cuda"):
        raise InputError(
            "--model: expected a model to serve on a CPU, got none", "assay pull smollm2"
        )
    if CASE in cases:
        if len(cases) > 1:
            raise InputError(f"--case {CASE}: expected it alone, got {len(cases)} cases")
        rival = rivals[0] if rivals else None
        return _users(model or GPU_MODEL, device, rival, quick=quick, save=save, as_json=as_json)
    with working("measuring serving", log=True) as progress:
        answer = compare_servers(
            model or GPU_MODEL,
            device,
            rival=rivals[0] if rivals else None,
            cases=cases,
            quick=quick,
            save=save,
            progress=progress,
        )
    data = answer.to_json()
    return report_of(answer, lambda canvas: _text(data, canvas), as_json)


def _users(
    model: str, device: str, rival: str | None, *, quick: bool, save: Path | None, as_json: bool
) -> Report:
    """Users of servers that take turns."""
    from assay import json_records, paths
    from assay.bench.serving.users import compare_users

    with working("measuring serving", log=True) as progress:
        answer = compare_users(model, device, rival=rival, quick=quick, progress=progress)
    if save is not None:
        paths.write_atomically(save, f"{json_records.dumps(answer.to_json(), depth=2)}\n".encode())
    header = ("server", "tokens/s", "assay is", "from", "to")
    rows: list[list[str | tuple[str, str]]] = [
        [
            (row.server, styles.NAME),
            f"{row.tokens_per_s:,.0f}",
            *(f"{value:.2f}x" for value in (row.median, row.least, row.most)),
        ]
        for row in answer.ratios()
    ]
    return report_of(answer, lambda canvas: table(header, rows, canvas, right=range(1, 5)), as_json)


def _text(data: Mapping[str, Any], canvas: Canvas) -> Iterator[Line]:
    rows = [_row(point, data["floors_s"]) for point in data["points"]]
    yield from table(_HEADER, rows, canvas, right=range(3, len(_HEADER)))


def _row(point: Mapping[str, Any], floors: Mapping[str, float]) -> list[Any]:
    figures = point["figures"]
    is_saturated = point["load"] == "saturated"
    rate = figures.get("request_throughput")
    floor_s = floors.get(point["scenario"])
    share = rate * floor_s if is_saturated and rate and floor_s else None

    def shown(name: str, form: str = ",.0f") -> str:
        value = figures.get(name)
        return "" if value is None else f"{value:{form}}"

    return [
        (point["scenario"], styles.NAME),
        point["load"],
        point["server"],
        shown("request_throughput", ".2f"),
        shown("output_throughput"),
        shown("request_goodput", ".2f"),
        *(shown(f"{level}_ttft_ms") for level in ("p50", "p99")),
        *(shown(f"{level}_tpot_ms", ".1f") for level in ("p50", "p99")),
        shown("p99_itl_ms", ".1f"),
        shown("idle_share", ".1%"),
        "" if share is None else f"{share:.0%}",
    ]
