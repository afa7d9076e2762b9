"""Traffic of a plan: from recorded requests, or from a rate and distributions of lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from assay.catalog import models as catalog_models
from assay.errors import InputError, UnknownNameError
from assay.lazy_import import np
from assay.load.workloads.lengths import parse_lengths
from assay.load.workloads.readers import azure, burstgpt, csv_rows, lengths_csv, lengths_only
from assay.load.workloads.readers.detect import format_of
from assay.load.workloads.readers.mapped import mapped_format, read_columns
from assay.load.workloads.readers.recorded import Format, LeftOut, Recorded, json_objects
from assay.load.workloads.spec import parse_share, parse_slo
from assay.load.workloads.texts import approximate_tokens
from assay.planner.capacity.objective import Objective
from assay.planner.capacity.traffic import HOUR, Traffic, recorded, reuse_of, steady

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

MOST_REQUESTS: Final = 2_000_000
_CHECKED_ROWS: Final = 1000
"""Rows whose fields are looked at."""
_SHOWN_FIELDS: Final = 8
_DRAWN: Final = 20_000
"""Lengths that stand for a distribution."""
_TIMED: Final = ("timestamp", "input_length", "output_length", "hash_ids")
_CHATS: Final = ("chat_id", "parent_chat_id", "session_id", "type", "turn", "delay")
FIELDS: Final = {
    "mooncake": (*_TIMED, *_CHATS),
    "timed_trace": (*_TIMED, *_CHATS),
    "lengths": (*lengths_only.FIELDS, "hash_ids"),
    "burstgpt": (
        *burstgpt.COLUMNS, "Model", "Total tokens", "Log Type", "Session ID", "Elapsed time",
    ),
    "azure": azure.COLUMNS,
    "lengths_csv": lengths_csv.COLUMNS,
}  # fmt: skip
"""Fields of formats with lengths; of others a note says that a plan ignores them."""


def read_objective(text: str) -> Objective:
    """A service level of a plan: limits as `--slo` has them everywhere, and the share that keeps them.

    >>> read_objective("ttft=1s,tpot=50ms,p=99%").share
    0.99
    """
    parts = text.replace(",", " ").split()
    shares = [part for part in parts if part.lower().startswith(("p=", "p:"))]
    if len(shares) > 1:
        raise InputError("--slo: expected p once, got it twice")
    limits = parse_slo("--slo", ",".join(part for part in parts if part not in shares))
    share = parse_share("--slo p", shares[0][2:]) if shares else Objective().share
    stated = {
        "first_token": limits.ttft_ms, "output_token": limits.tpot_ms, "end_to_end": limits.e2el_ms
    }  # fmt: skip
    seconds = {name: limit / 1e3 for name, limit in stated.items() if limit is not None}
    return Objective(**seconds, share=share)


def unitless(text: str) -> list[str]:
    """The limits of a service level that have no unit.

    >>> unitless("ttft=1,tpot=50ms,p=99%")
    ['ttft=1']
    """
    parts = text.replace(",", " ").split()
    return [part for part in parts if part[-1].isdecimal() and not part.lower().startswith("p")]


def drawn_traffic(
    rate: float, input_tokens: str, output_tokens: str, prefix_hits: float = 0.0, seed: int = 0
) -> Traffic:
    """Traffic of a rate, with lengths as `assay load` has them: 128, 64-256, lognormal:180,0.8."""
    random = Random(seed)
    prompts, outputs = (
        parse_lengths(name, text)
        for name, text in (("--input-tokens", input_tokens), ("--output-tokens", output_tokens))
    )
    drawn = [(prompts.draw(random), outputs.draw(random)) for _ in range(_DRAWN)]
    columns = np.array(drawn, float).T
    name = f"{rate:g} requests/s, {prompts} in, {outputs} out"
    return steady(name, rate, columns[0], columns[1], prefix_hits=prefix_hits)


def read_traffic(
    path: str | Path, *, format: str | None = None, rate: float | None = None,
    bin_seconds: float = HOUR, columns: str | None = None,
) -> Traffic:  # fmt: skip
    """The traffic of recorded requests; with a rate, their lengths at that rate.

    Times must be in order. `columns` are the names of those of a CSV file or of JSON lines by any names:
    `time=created,in=prompt,out=answer`.
    """
    path = Path(path)
    layout = (
        format_of(path, format) if columns is None else mapped_format(path, read_columns(columns))
    )
    rows, notes = _rows(path, layout)
    notes += _ignored(path, layout)
    prompts = np.array([_input_tokens(row) for row in rows], float)
    outputs = np.array([row.output_tokens for row in rows], float)
    if rate is not None:
        name = f"{rate:g} requests/s of the lengths of {path.name}"
        return replace(steady(name, rate, prompts, outputs), notes=tuple(notes))
    arrivals = _arrivals(path, rows)
    reuse = reuse_of([row.blocks for row in rows], layout.block_tokens(path))
    return recorded(
        path.name, arrivals, prompts, outputs, reuse=reuse, bin_seconds=bin_seconds, notes=notes
    )


def read_traffic_by_model(
    path: str | Path,
    models: Sequence[str],
    *,
    bin_seconds: float = HOUR,
    columns: str | None = None,
) -> dict[str, Traffic]:
    """The traffic of each model of a recording that says which was asked; all requests are of one of them.

    Names are compared as the catalog does: `meta-llama/Llama-3.1-8B-Instruct` is llama-3.1-8b.
    """
    path = Path(path)
    layout = format_of(path) if columns is None else mapped_format(path, read_columns(columns))
    rows, notes = _rows(path, layout)
    if not any(row.model for row in rows):
        raise InputError(
            f"{path}: expected the model of every request, got a recording without one",
            "name its column, --columns time=T,in=I,out=O,model=M, or give shares: "
            + ",".join(f"{name}={100 // len(models)}%" for name in models[:2]) + ",...",
        )  # fmt: skip
    arrivals = _arrivals(path, rows)
    by_name = {_canonical(name): name for name in models}
    own: dict[str, list[int]] = {name: [] for name in models}
    others: Counter[str] = Counter()
    for index, row in enumerate(rows):
        name = by_name.get(_canonical(row.model))
        if name is None:
            others[row.model or "no model"] += 1
        else:
            own[name].append(index)
    if others:
        name, number = others.most_common(1)[0]
        raise InputError(
            f"{path}: expected requests of {', '.join(models)[:120]}, got {number:,} of {name[:60]}",
            "add it to --model, or leave its rows out of the recording",
        )
    traffics = {}
    for name, places in own.items():
        if not places:
            raise InputError(f"{path}: expected requests of {name[:60]}, got none")
        picked = [rows[index] for index in places]
        traffics[name] = recorded(
            f"{path.name}, {name}", arrivals[places],
            np.array([_input_tokens(row) for row in picked], float),
            np.array([row.output_tokens for row in picked], float),
            reuse=reuse_of([row.blocks for row in picked], layout.block_tokens(path)),
            bin_seconds=bin_seconds, notes=notes, within=(float(arrivals[0]), float(arrivals[-1])),
        )  # fmt: skip
    return traffics


@cache
def _canonical(name: str) -> str:
    """A model's name in the catalog; of one that it does not have, the name itself."""
    try:
        return catalog_models.find(name).name
    except UnknownNameError:
        return name


def _rows(path: Path, layout: Format) -> tuple[list[Recorded], list[str]]:
    rows: list[Recorded] = []
    left_out: Counter[str] = Counter()
    assumed: Counter[str] = Counter()
    for row in layout.read(path):
        if isinstance(row, LeftOut):
            left_out[row.reason] += 1
            continue
        rows.append(row)
        assumed.update(row.assumed)
        if len(rows) > MOST_REQUESTS:
            raise InputError(f"{path}: expected at most {MOST_REQUESTS:,} requests, got more")
    notes = [f"{reason}: {number:,} left out" for reason, number in sorted(left_out.items())]
    notes += [f"{what}: {number:,} requests" for what, number in sorted(assumed.items())]
    if not rows:
        raise InputError(
            f"{path}: expected requests ({layout.name}: {layout.meaning}), got none",
            "; ".join(notes) or None,
        )
    return rows, notes


def _input_tokens(row: Recorded) -> int:
    if row.input_tokens is not None:
        return row.input_tokens
    return max(approximate_tokens(row.prompt or ""), 1)


def _arrivals(path: Path, rows: list[Recorded]) -> Numbers:
    times = np.array([np.nan if row.arrival_s is None else row.arrival_s for row in rows])
    if np.isnan(times).any():
        raise InputError(
            f"{path}: expected requests with times, got {int(np.isnan(times).sum()):,} without",
            "--rate plans for their lengths at a rate",
        )
    if (places := np.nonzero(np.diff(times) < 0)[0]).size:
        first = int(places[0])
        raise InputError(
            f"{path}: expected times in order, got request {first + 2:,} at {times[first + 1]:g} s "
            f"after one at {times[first]:g} s",
            "sort the file by its times",
        )
    return times


def _ignored(path: Path, layout: Format) -> list[str]:
    """A note of the fields that the format does not have."""
    if layout.name not in FIELDS:
        return []
    known = FIELDS[layout.name]
    names: Iterable[str]
    if layout.name in ("burstgpt", "azure", "lengths_csv"):
        names = [str(name) for name in next(iter(csv_rows.rows_of(path, ())), {})]
    else:
        rows = islice(json_objects(path), _CHECKED_ROWS)
        names = dict.fromkeys(name for _, fields in rows for name in fields)
    others = [name[:40] for name in names if name not in known]
    if not others:
        return []
    shown = ", ".join(others[:_SHOWN_FIELDS])
    more = f" and {len(others) - _SHOWN_FIELDS:,} more" if len(others) > _SHOWN_FIELDS else ""
    return [f"{path.name}: not used: {shown}{more}"]
