"""What a step costs: the shape of a step, and a model fitted to the steps that a trace shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from assay.array_types import Floats
from assay.errors import InputError
from assay.lazy_import import LazyModule, np, pl
from assay.observe import schema
from assay.observe.operations import parts

if TYPE_CHECKING:
    import scipy.optimize as optimize

    from assay.observe.trace import Trace
else:
    optimize = LazyModule("scipy.optimize", globals(), "optimize")

PER_SAMPLE: Final = frozenset({"lm_head", "sampling", "select_logits", "collect_outputs"})
"""Operations whose rows are sampled tokens; those of the others are all tokens of the step."""
QUIET: Final = 0.25
"""The quantile over equal steps that stands for an undisturbed one."""


@dataclass(frozen=True, slots=True)
class StepShape:
    """What a step computes."""

    decodes: int = 0
    """Sequences that decode one token."""
    decode_context: float = 0.0
    """Tokens that each of them attends to, on average."""
    prefill_tokens: int = 0
    prefill_pairs: float = 0.0
    """Pairs of query and key in the prefill: each token with itself and those before it."""
    samples: int = 0
    sequences: int = 0

    @classmethod
    def decode(cls, batch: int, context: float) -> StepShape:
        """A step in which every sequence decodes."""
        return cls(batch, context, 0, 0.0, batch, batch)

    @classmethod
    def prefill(cls, tokens: int, before: int = 0, *, samples: int = 1) -> StepShape:
        """A chunk of one prompt, behind `before` tokens that are computed already."""
        return cls(0, 0.0, tokens, tokens * (before + (tokens + 1) / 2), samples, 1)

    @property
    def tokens(self) -> int:
        """Rows of the linear layers."""
        return self.decodes + self.prefill_tokens

    @property
    def keys(self) -> float:
        """Keys that decoding sequences read."""
        return self.decodes * self.decode_context


class StepCost(Protocol):
    """Predicts the time of a step."""

    def step_ns(self, shape: StepShape) -> float:
        """Nanoseconds from the start of such a step to that of the next."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Time against rows: straight lines between the counts that were observed."""

    rows: tuple[float, ...]
    ns: tuple[float, ...]

    def at(self, rows: float) -> float:
        """The time for so many rows; beyond the observed, the last line goes on."""
        if rows <= 0:
            return 0.0
        if len(self.rows) == 1 or rows <= self.rows[0]:
            return self.ns[0]
        if rows >= self.rows[-1]:
            slope = (self.ns[-1] - self.ns[-2]) / (self.rows[-1] - self.rows[-2])
            return self.ns[-1] + max(slope, 0.0) * (rows - self.rows[-1])
        return float(np.interp(rows, self.rows, self.ns))


@dataclass(frozen=True, slots=True)
class ObservedCost:
    """A step as the sum of its operations, each fitted to the trace, and the host's time.

    Times of operations are `factors` times those of the trace: what changes of formats or clocks
    make of them.
    """

    curves: Mapping[str, Curve]
    """Time of an operation in all layers against rows."""
    attention: tuple[float, float, float, float]
    """Nanoseconds of attention: a step, a sequence, a key read in decode, a pair in prefill."""
    host: tuple[float, float]
    """Nanoseconds without device work: a step, a sequence."""
    attention_operation: str = "attention"
    factors: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, trace: Trace) -> ObservedCost:
        """Fit the steps of a trace, whose events carry steps and operations."""
        table = _operation_times(trace)
        attention = [name for name in table["op"].unique().to_list() if "attention" in parts(name)]
        if len(attention) != 1:
            raise InputError(
                "step-cost model: expected a trace with one kind of attention operation, got "
                f"{', '.join(attention) or 'none'}",
                "the kernels of the trace need operations: assay trace capture records them",
            )
        curves = {
            operation: _curve(part, operation)
            for (operation,), part in table.group_by("op", maintain_order=True)
            if operation != attention[0]
        }
        return cls(
            curves,
            _fit_attention(table.filter(pl.col("op") == attention[0])),
            _fit_host(trace),
            attention[0],
        )

    def scaled(self, factors: Mapping[str, float]) -> ObservedCost:
        """The same with operations changed by factors (`host` is the time without device work)."""
        merged = dict(self.factors)
        for name, factor in factors.items():
            merged[name] = merged.get(name, 1.0) * factor
        return replace(self, factors=merged)

    def operations_ns(self, shape: StepShape) -> dict[str, float]:
        """Time of each operation in a step, and of the host."""
        times_ns = {
            name: curve.at(_rows_of(name, shape)) * self._factor(name)
            for name, curve in self.curves.items()
        }
        base, sequence, key, pair = self.attention
        times_ns[self.attention_operation] = self._factor(self.attention_operation) * (
            base + sequence * shape.sequences + key * shape.keys + pair * shape.prefill_pairs
        )
        times_ns["host"] = self._factor("host") * (self.host[0] + self.host[1] * shape.sequences)
        return times_ns

    def step_ns(self, shape: StepShape) -> float:
        """The sum over operations, and the host's time."""
        return sum(self.operations_ns(shape).values())

    def _factor(self, operation: str) -> float:
        """The factor of an operation; a fused one takes that of its first part that has one."""
        if operation in self.factors:
            return self.factors[operation]
        return next((self.factors[part] for part in parts(operation) if part in self.factors), 1.0)


def _rows_of(operation: str, shape: StepShape) -> int:
    return shape.samples if PER_SAMPLE & set(parts(operation)) else shape.tokens


def _operation_times(trace: Trace) -> pl.DataFrame:
    """Time of each operation in each step, with the shape of the step.

    The median over layers times their number: a pause of one kernel does not count.
    """
    device = pl.col("kind").cast(pl.String).is_in(list(schema.DEVICE_KINDS))
    table = (
        trace.events.lazy()
        .filter(device & pl.col("step").is_not_null() & pl.col("op").is_not_null())
        .with_columns(pl.col("op").cast(pl.String))
        .group_by("step", "op")
        .agg(ns=pl.col("dur_ns").median() * pl.len())
        .collect()
    )
    if table.is_empty():
        raise InputError(
            "step-cost model: expected a trace whose kernels carry steps and operations, got none"
        )
    steps = trace.steps.select(
        "step", "batch", "prefill_tokens", "context", "requests"
    ).drop_nulls()
    if steps.is_empty():
        raise InputError(
            "step-cost model: expected steps with batch, prefill tokens and context, got none",
            "give --batch and --context, or a trace that assay trace capture recorded",
        )
    return table.join(steps, on="step", how="inner").sort("step", "op")


def _curve(part: pl.DataFrame, operation: str) -> Curve:
    rows = (
        pl.col("requests")
        if PER_SAMPLE & set(parts(operation))
        else pl.col("batch") + pl.col("prefill_tokens")
    )
    points = (
        part.group_by(rows.alias("rows"))
        .agg(pl.col("ns").quantile(QUIET))
        .filter(pl.col("rows") > 0)
        .sort("rows")
    )
    # More rows never take less: a pause may have hit every step of a count.
    rising = np.minimum.accumulate(points["ns"].to_numpy()[::-1])[::-1]
    return Curve(tuple(points["rows"].cast(pl.Float64).to_list()), tuple(rising.tolist()))


def _fit_attention(part: pl.DataFrame) -> tuple[float, float, float, float]:
    context, tokens, requests = pl.col("context"), pl.col("prefill_tokens"), pl.col("requests")
    points = (
        part.with_columns(
            keys=pl.col("batch") * context,
            # The context is that after the step; a token attends to itself and those before it.
            pairs=tokens * (context - (tokens / requests.clip(1) - 1) / 2),
        )
        .group_by("requests", "keys", "pairs")
        .agg(pl.col("ns").quantile(QUIET))
    )
    columns = ("requests", "keys", "pairs")
    coefficients = _non_negative(
        [np.ones(points.height), *(points[name].cast(pl.Float64).to_numpy() for name in columns)],
        points["ns"].to_numpy(),
    )
    return coefficients[0], coefficients[1], coefficients[2], coefficients[3]


def _fit_host(trace: Trace) -> tuple[float, float]:
    """Time of a step without device work: its own less its kernels and copies."""
    steps = (
        trace.steps.sort("start_ns")
        .with_columns(
            period=(pl.col("start_ns").shift(-1) - pl.col("start_ns")), own=pl.col("dur_ns")
        )
        .drop_nulls(["requests", "device_ns"])
        .with_columns(ns=(pl.min_horizontal("period", "own") - pl.col("device_ns")).clip(0))
    )
    points = steps.group_by("requests").agg(pl.col("ns").cast(pl.Float64).quantile(QUIET))
    coefficients = _non_negative(
        [np.ones(points.height), points["requests"].cast(pl.Float64).to_numpy()],
        points["ns"].to_numpy(),
    )
    return coefficients[0], coefficients[1]


def _non_negative(columns: Sequence[Floats], ns: Floats) -> list[float]:
    """Non-negative coefficients of least relative squares."""
    weight = 1 / np.maximum(ns, 1.0)
    scale = np.array([max(float(column.max(initial=0.0)), 1e-9) for column in columns])
    matrix = np.stack(columns, axis=1) / scale * weight[:, None]
    solution, _ = optimize.nnls(matrix, ns * weight)
    return [float(value) for value in solution / scale]
