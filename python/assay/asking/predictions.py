"""Commands of the planner: latencies at an arrival rate, and what bounds a step."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, Final

from assay.asking.commands import SERVING, Result
from assay.errors import InputError


class _Prediction:
    """What commands of the planner rest on."""

    model: str
    gpu: str

    @property
    def includes(self) -> tuple[str, ...]:
        """The model and the accelerator."""
        return (f"models/{self.model}", f"accelerators/{self.gpu}")

    @property
    def assign(self) -> tuple[str, ...]:
        """Nothing beyond its options."""
        return ()


@dataclass(frozen=True)
class PredictLoad(_Prediction):
    """`assay predict-load`: latencies at an arrival rate."""

    model: str
    gpu: str
    rates: tuple[float, ...]
    figure: str = "end_to_end"
    """A field of `OpenLoop`: first_token, output_token, end_to_end; or goodput."""
    percentile: str = "p50"
    options: tuple[tuple[str, Any], ...] = ()
    preset: str = SERVING

    @property
    def line(self) -> str:
        """The command line."""
        words = ["assay", "predict-load", "--model", self.model, "--gpu", self.gpu]
        words += ["--rates", ",".join(f"{rate:g}" for rate in self.rates)]
        for name, value in self.options:
            words += [
                f"--{_LOAD_OPTIONS.get(name, name).replace('_', '-')}",
                f"{value:g}" if isinstance(value, float) else str(value),
            ]
        return shlex.join(words)

    def rows(self) -> Any:
        """The prediction, a row for each rate that the server keeps up with."""
        from assay.planner.questions import predict_load

        return predict_load(self.model, self.gpu, list(self.rates), **dict(self.options))

    def run(self) -> Result:
        """Predict the load of the first rate."""
        from assay import stack

        answer = self.rows()
        if not answer.rates:
            rate, reason = answer.refused[0]
            most = answer.completes
            raise SaturatedError(
                f"{rate:g} requests/s: {reason}",
                f"it completes {most.rate:.3g} requests/s at most; fewer requests, or more GPUs",
            )
        if self.figure == "output_token" and not answer.has_gaps:
            raise InputError("requests of one output token have no time between tokens")
        row = answer.rates[0]
        variables = stack.registry().variables

        def latency(load: Any, figure: str) -> float:
            return float(getattr(getattr(load, figure), self.percentile))

        figures = ", ".join(
            f"{label} {variables[name].figure(latency(row, figure)).text}"
            for figure, (label, name) in _LOAD_FIGURES.items()
            if answer.has_gaps or figure != "output_token"
        )
        label, target = _LOAD_FIGURES[self.figure]
        variable, value = variables[target], latency(row, self.figure)
        lo = latency(row.lo, self.figure)
        hi = None if row.hi is None else latency(row.hi, self.figure)
        verdict = "" if row.verdict == "ok" else f" ({row.verdict})"
        return Result(
            self, target, f"{label} at {row.rate:g} requests/s{verdict}, {self.percentile}",
            variable.shown(value), variable.display.text, variable.figure(value, lo, hi).text,
            variable.shown(lo), None if hi is None else variable.shown(hi),
            notes=(f"{self.percentile}: {figures}", *answer.notes),
        )  # fmt: skip


class SaturatedError(InputError):
    """A server that cannot keep up with the rate."""


_LOAD_OPTIONS: Final = {"ttft_limit_ms": "ttft-limit", "tpot_limit_ms": "tpot-limit"}
_LOAD_FIGURES: Final = {
    "first_token": ("TTFT", "serving.time_to_first_token"),
    "output_token": ("TPOT", "serving.time_per_output_token"),
    "end_to_end": ("end-to-end latency", "serving.end_to_end_time"),
}
"""Fields of a predicted load, what people call them, and the variables that mean the same."""


@dataclass(frozen=True)
class Predict(_Prediction):
    """`assay predict`: one step, operation by operation; its figure is what bounds most of it."""

    model: str
    gpu: str
    options: tuple[tuple[str, Any], ...] = ()
    preset: str = SERVING

    @property
    def line(self) -> str:
        """The command line."""
        words = ["assay", "predict", "--model", self.model, "--gpu", self.gpu]
        names = {"sequences": "batch"}
        for name, value in self.options:
            words += [f"--{names.get(name, name).replace('_', '-')}", str(value)]
        return shlex.join(words)

    def run(self) -> Result:
        """Predict the step, and sum its time by what bounds it."""
        from assay.planner.questions import predict_step

        answer = predict_step(self.model, self.gpu, **dict(self.options))
        times: dict[str, float] = {}
        for row in answer.operations:
            times[row.bound] = times.get(row.bound, 0.0) + row.expected_ns
        whole = sum(times.values())
        shares = sorted(times.items(), key=lambda pair: -pair[1])
        text = ", ".join(
            f"{bound} {time / whole:.0%}" for bound, time in shares if time > whole / 100
        )
        step = answer.graph.totals["step"]
        longest = answer.operations[0]
        return Result(
            self, "serving.step.time", "time of the step", step.value / 1e6, "ms", shares[0][0],
            step.lo / 1e6 if step.lo is not None else None,
            step.hi / 1e6 if step.hi is not None else None,
            notes=(
                f"of the step's operations: {text}",
                f"the longest is {longest.operation}, {longest.expected_ns / 1e6:.3g} ms of {step.value / 1e6:.3g}",
            ),
        )  # fmt: skip
