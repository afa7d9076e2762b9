"""Commands of the planner: latencies at an arrival rate, GPUs for one, and what bounds a step."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.asking.commands import SERVING, Result
from assay.errors import InputError
from assay.lazy_import import np

if TYPE_CHECKING:
    from assay.planner.capacity.option import Option
    from assay.planner.capacity.planning import Planner


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
class Servers(_Prediction):
    """What `assay plan` is told of requests that arrive at random, and of the servers for them."""

    model: str
    gpu: str
    prompt: int
    output: int
    limits: tuple[float, float, float]
    """Seconds of TTFT and of TPOT, and the share of requests that keep both."""
    tensor: int
    options: tuple[tuple[str, str], ...] = ()
    """Formats and engine, by the names of the command's options."""
    prefix_hits: float = 0.0

    def words(self, *rate: str) -> str:
        """The command line for a rate."""
        first, between, share = self.limits
        slo = f"ttft={1e3 * first:g}ms,tpot={1e3 * between:g}ms,p={100 * share:g}%"
        words = ["assay", "plan", "--model", self.model, "--rate", *rate]
        words += ["--slo", slo, "--input-tokens", str(self.prompt)]
        words += ["--output-tokens", str(self.output), "--gpu", self.gpu]
        words += ["--tensor", str(self.tensor)]
        for name, value in self.options:
            words += [f"--{name.replace('_', '-')}", value]
        if self.prefix_hits:
            words += ["--prefix-hits", f"{self.prefix_hits:g}"]
        return shlex.join(words)

    def planner(self, rate: float, **more: Any) -> Planner:
        """The servers at a rate."""
        from assay.planner.capacity.objective import Objective
        from assay.planner.capacity.planning import Planner
        from assay.planner.capacity.traffic import steady

        first, between, share = self.limits
        lengths = (np.array([float(length)]) for length in (self.prompt, self.output))
        traffic = steady("a rate", rate, *lengths, prefix_hits=self.prefix_hits)
        for name, value in self.options:
            more[name if name == "kv_dtype" else f"{name}s"] = (
                value if name == "kv_dtype" else [value]
            )
        objective = Objective(first_token=first, output_token=between, share=share)
        return Planner(
            self.model, traffic, objective, gpus=[self.gpu], tensor=[self.tensor], **more
        )


@dataclass(frozen=True)
class Plan:
    """`assay plan`: the fewest GPUs that serve random arrivals at a rate within a service level."""

    servers: Servers
    rate: float
    preset: str = SERVING

    @property
    def includes(self) -> tuple[str, ...]:
        """The model and the accelerator."""
        return self.servers.includes

    @property
    def assign(self) -> tuple[str, ...]:
        """Nothing beyond its options."""
        return ()

    @property
    def line(self) -> str:
        """The command line."""
        return self.servers.words(f"{self.rate:.10g}")

    def option(self) -> Option:
        """The best plan; raises `InfeasibleError` where no server keeps the service level."""
        return self.servers.planner(float(f"{self.rate:.10g}")).plan().best

    def run(self) -> Result:
        """Plan it; the figure is the number of GPUs."""
        return self.result_of(self.option())

    def result_of(self, option: Option) -> Result:
        """The figure of a plan."""
        from assay import stack

        variable = stack.registry().variables["serving.gpus"]
        return Result(
            self, variable.name, variable.meaning, float(option.gpus), "GPU",
            variable.figure(float(option.gpus)).text,
        )  # fmt: skip


@dataclass(frozen=True)
class PlanMost(Plan):
    """`assay plan --rate max`: the most requests per second that some GPUs serve within a service level."""

    rate: float = 1.0
    gpus: int = 1

    @property
    def line(self) -> str:
        """The command line."""
        return self.servers.words("max", "--max-gpus", str(self.gpus))

    def most(self, **more: Any) -> float:
        """Requests per second; `risk` is that at which the service level may be missed."""
        from assay.planner.capacity.budget import Budget

        return self.servers.planner(self.rate, **more).most(Budget(gpus=self.gpus))

    def run(self) -> Result:
        """The rate at which the service level is kept but for the planner's own risk."""
        rate, lo, hi = self.most(), *(self.most(risk=risk) for risk in _RISKS)
        return Result(
            self, "serving.goodput", "requests per second within the limits", rate, "request/s",
            f"{rate:.3g} request/s", lo, hi,
        )  # fmt: skip


_RISKS: Final = (0.05, 0.95)
"""Shares of the step times that are longer than at both ends of a 90 % interval."""


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
