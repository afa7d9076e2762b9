"""Measured windows of servers beside what a plan says of them, from a file of `assay bench serving`.

Windows at a rate are compared with the closed form of `assay plan`, with its intervals, and with replays of as many
requests; saturated ones, and those at a rate that the server cannot keep up with, with replays. Lengths are the means
of the window. Nothing of the file is fitted here; figures of windows that gave a constant say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

from assay.answers import Answer, Progress, silent
from assay.errors import AssayError, EvaluationError, InputError
from assay.files import read_json
from assay.lazy_import import np
from assay.model.language.distributions import Z90
from assay.planner.capacity.candidates import Candidate, candidates
from assay.planner.capacity.objective import Objective
from assay.planner.capacity.option import percentiles
from assay.planner.capacity.served import Sample, sample_of
from assay.planner.sources import hardware_spec, model_spec
from assay.planner.specs import BatchConfig

BARS: Final = {"p50": 0.10, "p90": 0.25, "p99": 0.25, "rate": 0.07, "energy": 0.12}
"""Largest errors that count as met."""
AT_ONCE: Final = 512
"""Requests under way at once where a window is saturated, unless its point says how many."""
ENGINES: Final = ("vllm", "assay", "sglang", "trtllm")
_MODELS: Final = {"llama-3-8b-shape": "llama-3.1-8b", "qwen3-30b-a3b-shape": "qwen3-30b-a3b"}
"""Checkpoints of random weights by the model whose shape they have."""
_BOARDS: Final = {"NVIDIA H200": "h200_sxm", "NVIDIA H100 80GB HBM3": "h100_sxm"}
"""Accelerators by the name that their driver gives them."""
_LATENCIES: Final = {"ttft": "first_token", "tpot": "output_token"}
_LEVELS: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_READ_SHARE: Final = 0.957
"""Of the data sheet's bandwidth, the most that a read reaches: 4,596 GB/s of 4 GiB on an H200
(bench/results/ceilings-h200.json)."""
_DRAWS: Final = 15
"""Replays of a window, each with other arrivals; their median counts."""
_FITTED: Final = {
    ("vllm", "1024/128", None): ("rate",), ("vllm", "4900/128", None): ("rate",),
    ("vllm", "200/500", None): ("rate",), ("vllm", "batch", None): ("rate",),
    ("assay", "1024/128", 12.0): ("ttft",), ("assay", "1024/128", 21.0): ("ttft",),
}  # fmt: skip
"""Figures of the dense model's windows that gave a constant: two of vLLM's API process, and the time that a request
takes in the own server (catalog/calibration/engines.json)."""
_FEWEST: Final = 500
"""Requests of a window whose 99th percentile is judged."""


@dataclass(frozen=True)
class Compared:
    """A measured figure of a window and its prediction."""

    server: str
    scenario: str
    rate: float | None
    """Requests per second that were sent; None where the server was saturated."""
    requests: int
    figure: str
    unit: str
    measured: float
    predicted: float
    lo: float | None
    hi: float | None
    bar: float
    replayed: float | None = None
    """What replays of as many requests give, beside a closed form."""
    is_fitted: bool = False
    """Whether a constant was fitted on this figure."""

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1

    @property
    def is_met(self) -> bool:
        """Whether the error is within its bar."""
        return abs(self.error) <= self.bar

    def to_data(self) -> dict[str, Any]:
        """As data of JSON."""
        names = [*self.__dataclass_fields__, "error", "is_met"]
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class ServedWindows(Answer):
    """All figures of a file, and windows that have no prediction."""

    file: str
    figures: Sequence[Compared]
    refused: Sequence[tuple[str, str]]
    """Windows without a prediction, and why."""


def compare_windows(file: str | Path, progress: Progress = silent) -> ServedWindows:
    """Predict every window of a file of `assay bench serving`."""
    data = read_json("windows", Path(file))
    if not isinstance(data, Mapping) or data.get("suite") != "serving" or "points" not in data:
        raise InputError(
            f"{file}: expected a file of assay bench serving, got another",
            "bench/results/serving-h200.json is one",
        )
    figures: list[Compared] = []
    refused: list[tuple[str, str]] = []
    unlike: list[str] = []
    for point in data["points"]:
        name = f"{point['server']} {point['scenario']} {point['load']}"
        progress(name)
        try:
            figures += _window(point, data)
            unlike += _below_floor(point, data)
        except AssayError as error:
            refused.append((name, error.message))
    notes = [*map(str, data.get("notes", ())), *_said(data), *unlike]
    return ServedWindows(str(file), figures, refused, notes=tuple(notes))


def _said(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"requests of saturated windows: {AT_ONCE} under way at once, where a point does not say"
    few = sorted(
        {f"{p['scenario']} {p['load']}" for p in data["points"]
         if p["rate"] is not None and p["figures"].get("completed", 0) < _FEWEST}
    )  # fmt: skip
    if few:
        yield f"fewer than {_FEWEST} requests, so that a 99th percentile is of few: {', '.join(few)}"


def _below_floor(point: Mapping[str, Any], data: Mapping[str, Any]) -> list[str]:
    """Whether tokens came faster than any kernel reads the experts that tokens choose at random.

    Checkpoints of random weights may choose the same experts for most tokens: such a window says nothing of a model
    that was trained to spread them. The decoding requests are those of Little's law.
    """
    figures = point["figures"]
    tpot = figures.get("p50_tpot_ms")
    name = str(point.get("model") or data["model"])
    if point["rate"] is None or not tpot or name not in _MODELS:
        return []
    server, _ = _server(point, data)
    sample, table = server.sample, server.candidate.table
    rate, prompt = float(point["rate"]), float(sample.prompts.mean())
    running = rate * float(sample.outputs.mean()) * tpot / 1e3
    by_tokens = np.array(
        [np.interp(running, table.sequences, column) for column in table.floor.T]
    ) / _READ_SHARE  # fmt: skip
    decode, mixed = by_tokens[0], float(np.interp(prompt, table.chunks, by_tokens))
    # Between two tokens of a request there are the prompts of others.
    least = 1e3 * decode / max(1 - rate * (mixed - decode), 1e-9)
    if tpot >= least:
        return []
    return [
        f"{point['server']} {point['scenario']} {point['load']}: p50 tpot {tpot:.3g} ms is below the "
        f"{least:.3g} ms in which {running:.3g} decoding requests and the prompts between can be read, "
        f"where tokens choose experts at random: the random weights of {name} choose fewer, so that its "
        "decode figures are not those of a trained model"
    ]


def _window(point: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[Compared]:
    server, figures = _server(point, data)
    sample, count = server.sample, int(figures["completed"])

    fitted = _FITTED.get((point["server"], point["scenario"], point["rate"]), ())
    if str(point.get("model") or data["model"]) != "llama-3-8b-shape":
        fitted = ()

    def compared(
        name: str, unit: str, measured: float, value: Any, kind: str, replayed: float | None = None
    ) -> Compared:
        predicted, lo, hi = value
        return Compared(
            point["server"], point["scenario"], point["rate"], count, name, unit, measured,
            predicted, lo, hi, BARS[kind], replayed, name.split()[-1] in fitted,
        )  # fmt: skip

    if point["rate"] is None:
        at_once = int(point.get("at_once") or AT_ONCE)
        one = np.ones(count)
        lengths = one * sample.prompts[0], one * sample.prompts[0], one * sample.outputs[0]
        rates = [
            count / server.candidate.closed(deviations, at_once, *lengths).seconds
            for deviations in (0.0, Z90, -Z90)
        ]
        yield compared("rate", "requests/s", figures["request_throughput"], rates, "rate")
        return
    rate = float(point["rate"])
    likely = _replays(server, rate, count, 0.0)
    try:
        levels = percentiles(server.candidate, sample, rate)
    except EvaluationError:
        # More than the server completes: what waits depends on for how long it was sent.
        ends = [likely, *(_replays(server, rate, count, end) for end in (Z90, -Z90))]
        completed = [own["rate"] for own in ends]
        yield compared("rate", "requests/s", figures["request_throughput"], completed, "rate")
        for (name, figure), level in product(_LATENCIES.items(), _LEVELS):
            if measured := figures.get(f"{level}_{name}_ms"):
                values = [1e3 * own[f"{level} {figure}"] for own in (likely, ends[2], ends[1])]
                yield compared(f"{level} {name}", "ms", measured, values, level)
        return
    for name, figure in _LATENCIES.items():
        for level, interval in levels[figure].items():
            measured = figures.get(f"{level}_{name}_ms")
            if measured:
                values = [1e3 * end for end in (interval.value, interval.lo, interval.hi)]
                replayed = 1e3 * likely[f"{level} {figure}"]
                yield compared(f"{level} {name}", "ms", measured, values, level, replayed)
    if joules := figures.get("gpu_joules"):
        served = server.candidate.served(sample, rate, 0.0, Objective())
        watts = server.candidate.board_watts(
            served.running, sample.context, served.step_tokens, served.busy
        )
        if watts is not None:
            tokens = figures["total_output_tokens"]
            value = watts / (rate * float(sample.outputs.mean()))
            yield compared("energy", "J/token", joules / tokens, (value, None, None), "energy")


def _replays(server: _Server, rate: float, count: int, deviations: float) -> dict[str, float]:
    """Medians over replays of so many requests: their rate, and percentiles of their latencies in seconds."""
    sample, one = server.sample, np.ones(count)
    prompts, outputs = one * sample.prompts[0], one * sample.outputs[0]
    seen: dict[str, list[float]] = {}
    for seed in range(_DRAWS):
        generator = np.random.default_rng(seed)
        arrivals = np.cumsum(generator.exponential(1 / rate, count))
        run = server.candidate.replayed(
            deviations, arrivals, prompts, prompts, outputs, generator
        )  # fmt: skip
        seen.setdefault("rate", []).append(count / run.seconds)
        for figure in _LATENCIES.values():
            for level, share in _LEVELS.items():
                value = float(np.quantile(getattr(run, figure), share))
                seen.setdefault(f"{level} {figure}", []).append(value)
    return {name: float(np.median(values)) for name, values in seen.items()}


@dataclass(frozen=True)
class _Server:
    candidate: Candidate
    sample: Sample


def _server(
    point: Mapping[str, Any], data: Mapping[str, Any]
) -> tuple[_Server, Mapping[str, float]]:
    """The server of a window, and requests of its mean lengths."""
    figures: Mapping[str, float] = point["figures"]
    count = int(figures.get("completed") or 0)
    if not count or figures.get("failed"):
        raise InputError("not all requests were answered")
    if "/" not in point["scenario"] and point["scenario"] != "batch":
        raise InputError(
            "requests share prefixes or have grammars, which a plan takes from a trace"
        )
    if point["server"] not in ENGINES:
        raise InputError(f"no constants of the engine {point['server']}")
    board = str(data["machine"].get("device_description"))
    name = str(point.get("model") or data["model"])
    model, hardware = model_spec(_MODELS.get(name, name)), hardware_spec(_BOARDS.get(board, board))
    prompt, output = (
        max(round(figures[f"total_{way}_tokens"] / count), 1) for way in ("input", "output")
    )
    one = np.ones(2)
    sample = sample_of(prompt * one, prompt * one, output * one)
    batch = BatchConfig(engine=point["server"])
    fitting, others = candidates(
        model, hardware, batch, sample, tensor=(1,), longest=prompt + output
    )
    if not fitting:
        raise InputError(others[0].reason)
    return _Server(fitting[0], sample), figures
