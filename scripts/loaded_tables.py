"""Tables of what figures of loaded servers miss by with their source left out, by what is served."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

from assay.validate.cases import Case
from assay.validate.groups import BARS
from assay.validate.score import Row

POWER = "GPU power"
COLUMNS = {"rate": "throughput, loaded", "ITL": "ITL", "energy": "energy per token", "power": POWER}
"""Groups of figures by the heading of their column."""
LONG = 5_000
"""Output tokens from which an answer is long: those of chats have some hundreds, of problems thousands."""

Kind = tuple[str, ...]


def served(case: Case) -> Kind:
    """Accelerator and model, dense models together."""
    model = str(case.inputs["model"]).rpartition("/")[2]
    if model.startswith("gpt-oss"):
        return str(case.inputs["system"]), "gpt-oss"
    sparse = next((name for name in ("Qwen3-30B", "Qwen3-235B") if model.startswith(name)), "dense")
    return str(case.inputs["system"]), sparse


def answered(case: Case) -> Kind:
    """Accelerator, model and format of its experts, and how long answers are."""
    system, model = served(case)
    if model.startswith("Qwen3"):
        model = "experts in 8 bits" if case.inputs["precision"] == "fp8" else "experts in 16 bits"
    return system, model, "long answers" if case.inputs["osl"] >= LONG else "chats"


def signed_table(rows: Sequence[Row], cases: Mapping[str, Case]) -> str:
    """Signed medians of all figures, in percent."""
    lines = [
        f"|  | configurations | {' | '.join(COLUMNS)} |",
        f"|---|{'---|' * (len(COLUMNS) + 1)}",
    ]
    for kind, own in _by_kind(rows, cases, served):
        count = max(len(errors) for errors in own.values())
        medians = " | ".join(f"{median(own[group]):+.1%}"[:-1] for group in COLUMNS.values())
        lines.append(f"| {', '.join(kind)} | {count} | {medians} |")
    return "\n".join(lines)


def power_table(rows: Sequence[Row], cases: Mapping[str, Case]) -> str:
    """Where power misses its bar, beside the rate of the same configurations, in percent."""
    bar = BARS[POWER]
    lines = [
        f"|  | configurations | within {100 * bar:.0f} % | power, size | power, signed | rate, signed |",
        "|---|---|---|---|---|---|",
    ]
    for kind, own in _by_kind(rows, cases, answered):
        errors, rates = own[POWER], own[COLUMNS["rate"]]
        near = sum(abs(error) <= bar for error in errors)
        lines.append(
            f"| {', '.join(kind)} | {len(errors)} | {near} | {100 * median(map(abs, errors)):.1f} | "
            f"{100 * median(errors):+.1f} | {100 * median(rates):+.1f} |"
        )
    return "\n".join(lines)


def _by_kind(
    rows: Sequence[Row], cases: Mapping[str, Case], kind_of: Callable[[Case], Kind]
) -> Iterator[tuple[Kind, dict[str, list[float]]]]:
    kinds: dict[Kind, dict[str, list[float]]] = {}
    for row in rows:
        if row.group in COLUMNS.values() and row.held_out_error is not None:
            errors = kinds.setdefault(kind_of(cases[row.case]), {})
            errors.setdefault(row.group, []).append(row.held_out_error)
    # The newest accelerator last, whose hosts are known least.
    order = {"H100": 0, "B200": 1}
    whole = ((kind, own) for kind, own in kinds.items() if len(own) == len(COLUMNS))
    yield from sorted(whole, key=lambda item: (order.get(item[0][0], 2), *item[0][1:]))
