"""Servers that a plan may use: every layout of a model on some accelerators, with its steps and memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from assay.catalog import engines
from assay.errors import InfeasibleError, InputError, MissingInputsError
from assay.lazy_import import np
from assay.planner import evaluation as e
from assay.planner.capacity.hosts import Host, host_of
from assay.planner.capacity.objective import Objective
from assay.planner.capacity.replay import Replayed, replay
from assay.planner.capacity.served import (
    Sample,
    Served,
    ServerLimits,
    ServerState,
    highest_rate,
    saturation,
    serve,
)
from assay.planner.capacity.step_table import StepTable, step_table
from assay.planner.fit import judge
from assay.planner.plan import plan_step
from assay.planner.prices import cooled, offer_of
from assay.planner.serving_load import server_constants
from assay.planner.serving_settings import started_with
from assay.planner.specs import BatchConfig, HardwareSpec, ModelSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

TENSOR: Final = (1, 2, 4, 8)
"""Tensor-parallel GPUs of an instance: those of a node."""
PIPELINE: Final = (1, 2, 4, 8)
MOST_RUNNING: Final = 1024
"""Running requests at most, where the KV cache holds more (max_num_seqs)."""


@dataclass(frozen=True)
class Candidate:
    """A server of a model: hardware, layout, formats, engine and limit of running requests."""

    model: ModelSpec
    hardware: HardwareSpec
    batch: BatchConfig
    table: StepTable
    limits: ServerLimits
    most: int
    kv_bytes: float
    """Bytes of the KV cache of a token on one GPU."""

    @property
    def caches(self) -> int:
        """Servers of an instance that have a prefix cache each."""
        return 1

    def served(
        self, sample: Sample, rate: float, deviations: float, objective: Objective,
        dispersion: float = 1.0,
    ) -> Served:  # fmt: skip
        """What requests see where all steps take so many standard deviations longer."""
        return serve(self.slowed(deviations), sample, rate, self.limits, objective, dispersion)

    def latencies(self, sample: Sample, rate: float, deviations: float) -> tuple[Numbers, Numbers]:
        """TTFT and TPOT of each request of a sample; raises where the server cannot keep up."""
        state = ServerState(self.slowed(deviations), sample, rate, self.limits, 1.0)
        return state.first_tokens(), state.output_tokens()

    def saturation(self, sample: Sample, deviations: float) -> float:
        """A rate above what an instance completes."""
        return saturation(self.slowed(deviations), sample, self.limits)

    def highest(
        self, sample: Sample, deviations: float, objective: Objective, dispersion: float = 1.0
    ) -> float:
        """The highest rate of an instance within the objective."""
        return highest_rate(self.slowed(deviations), sample, self.limits, objective, dispersion)

    def replayed(
        self, deviations: float, arrivals: Numbers, fresh: Numbers, prompts: Numbers,
        outputs: Numbers, generator: np.random.Generator,
    ) -> Replayed:  # fmt: skip
        """What requests see in a replay of them."""
        return replay(self.slowed(deviations), self.limits, arrivals, fresh, prompts, outputs)

    def closed(
        self, deviations: float, at_once: int, fresh: Numbers, prompts: Numbers, outputs: Numbers
    ) -> Replayed:
        """What requests see of which so many are under way at once."""
        return replay(
            self.slowed(deviations), self.limits, np.zeros(len(prompts)), fresh, prompts, outputs,
            at_once=at_once,
        )  # fmt: skip

    def drawn(self, sample: Sample, served: Served) -> float | None:
        """Watts of an instance; None where the catalog lacks what they follow from."""
        return self.watts(served.running, sample.context, served.step_tokens, served.busy)

    def slowed(self, deviations: float) -> StepTable:
        """The steps, each so many standard deviations longer."""
        if deviations not in self._slowed:
            self._slowed[deviations] = self.table.slower(deviations)
        return self._slowed[deviations]

    @cached_property
    def _slowed(self) -> dict[float, StepTable]:
        return {}

    @property
    def gpus(self) -> int:
        """GPUs of one instance."""
        return self.batch.tensor * self.batch.pipeline

    @property
    def layout(self) -> str:
        """The layout as engines name it."""
        parts = [f"TP{self.batch.tensor}"]
        if self.batch.pipeline > 1:
            parts.append(f"PP{self.batch.pipeline}")
        if self.batch.expert > 1:
            parts.append(f"EP{self.batch.expert}")
        return " ".join(parts)

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.hardware.name} {self.layout}, {self.batch.weight_dtype}, {self.batch.engine}"

    @cached_property
    def usd_per_hour(self) -> float | None:
        """Rent of an instance; None where the catalog has no rent of the accelerator."""
        offer = offer_of(self.hardware)
        return None if offer is None else self.gpus * offer.usd_per_hour

    @property
    def terms(self) -> str:
        """At what price GPUs are rented, and from whom."""
        offer = offer_of(self.hardware)
        return (
            f"the catalog has no rent of {self.hardware.name}"
            if offer is None
            else f"rented at {offer.usd_per_hour:.2f} USD/h a GPU ({offer.name})"
        )

    @cached_property
    def rated_watts(self) -> float | None:
        """The most that an instance draws; None where the catalog does not say."""
        given = self.hardware.given
        watts = given.get("gpu.power.limit", given.get("gpu.power.rated"))
        if watts is None:
            return None
        return self.gpus * (watts if self.host is None else self.host.most(watts))

    @cached_property
    def host(self) -> Host | None:
        """What the node draws beside the boards; None where the catalog has no node."""
        return host_of(self.hardware.accelerator or self.hardware.name)

    def watts(self, running: float, context: float, tokens: float, busy: float) -> float | None:
        """Power at a mean step, with idle power where nothing runs."""
        board = self.board_watts(running, context, tokens, busy)
        if board is None:
            return None
        return self.gpus * (board if self.host is None else self.host.drawn(board))

    def board_watts(
        self, running: float, context: float, tokens: float, busy: float
    ) -> float | None:
        """Power of one board at a mean step; None where the catalog lacks what it follows from."""
        idle = self.hardware.given.get("gpu.power.idle")
        step = replace(
            self.batch, sequences=max(round(running), 0 if tokens >= 1 else 1),
            context=max(round(context), 1), prefill_tokens=round(tokens),
            prompt=max(round(tokens), 1),
        )  # fmt: skip
        plan = plan_step(self.model, step, on_gpu=self.hardware.is_gpu)
        given, _ = e.inputs(self.model, self.hardware, step, plan)
        try:
            cooling, _ = cooled(self.hardware)
            outputs = e.evaluate([{**given, **cooling}], e.POWERED, e.POWER_VARIANTS)[0]
        except MissingInputsError:
            return None
        if idle is None:
            return None
        return busy * outputs["gpu.power"] + (1 - busy) * idle

    def limited(self, most: int) -> Candidate:
        """The same server with another limit of running requests."""
        return replace(self, most=most, table=replace(self.table, most=most))


@dataclass(frozen=True, slots=True)
class Refused:
    """A layout that could not serve the traffic, and why."""

    name: str
    reason: str


def candidates(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig, sample: Sample, *,
    tensor: Sequence[int] = TENSOR, longest: float,
) -> tuple[list[Candidate], list[Refused]]:  # fmt: skip
    """The servers of a model on an accelerator that hold the longest request, by layout."""
    fitting: list[Candidate] = []
    refused: list[Refused] = []
    for layout in _layouts(model, batch, tensor):
        if layout.pipeline > 1 and any(own.batch.pipeline < layout.pipeline for own in fitting):
            # Stages are for models that do not fit fewer GPUs.
            continue
        name = f"{hardware.name} TP{layout.tensor} PP{layout.pipeline}"
        try:
            fitting.append(_candidate(model, hardware, layout, sample, longest))
        except InfeasibleError as error:
            refused.append(Refused(name, error.message))
    return fitting, refused


def _layouts(model: ModelSpec, batch: BatchConfig, tensor: Sequence[int]) -> Iterator[BatchConfig]:
    heads, layers = int(model.architecture["heads"]), int(model.architecture["layers"])
    experts = int(model.architecture.get("experts", 0))
    groups = [1] if batch.engine == "assay" else [n for n in tensor if heads % n == 0]
    stages = [1] if batch.engine == "assay" else [n for n in PIPELINE if n <= layers]
    for pipeline in stages:
        # Stages are in different nodes: each is as wide as a node allows.
        for group in groups if pipeline == 1 else groups[-1:]:
            yield replace(batch, tensor=group, pipeline=pipeline)
            if group > 1 and experts >= group:
                yield replace(batch, tensor=group, pipeline=pipeline, expert=group)


def _candidate(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig, sample: Sample, longest: float
) -> Candidate:
    context = max(round(sample.context), 1)
    step = replace(batch, sequences=1, context=context, prefill_tokens=0, prompt=0)
    try:
        fit = judge(model, hardware, step, running=MOST_RUNNING)
    except InputError as error:
        raise InfeasibleError(error.message) from None
    if fit.broken:
        raise InfeasibleError(
            f"{fit.weights / 1e9:,.1f} GB of weights and a request do not fit "
            f"{fit.capacity / 1e9:,.0f} GB a GPU ({', '.join(fit.broken)})"
        )
    cache_tokens = fit.requests * context
    if longest > cache_tokens:
        raise InfeasibleError(
            f"the longest request has {longest:,.0f} tokens, the KV cache holds {cache_tokens:,.0f}"
        )
    budget, limit = started_with(model, hardware, batch)
    most = max(min(limit or MOST_RUNNING, math.floor(cache_tokens / context)), 1)
    table = step_table(
        model, hardware, batch, budget=budget, most=most, context=sample.context,
        prompt=sample.attended,
    )  # fmt: skip
    limits = ServerLimits(
        cache_tokens, **server_constants(batch.engine),
        frontend=engines.frontend(batch.engine) or engines.NO_FRONTEND,
    )  # fmt: skip
    return Candidate(model, hardware, batch, table, limits, most, fit.request / context)


def batch_limits(candidate: Candidate, sample: Sample, output_token: float) -> list[Candidate]:
    """The server with its own limit of running requests, and with one that keeps a TPOT by itself."""
    servers = [candidate]
    if math.isfinite(output_token):
        numbers = np.arange(1, candidate.most + 1, dtype=float)
        steps = candidate.table.seconds(numbers, sample.context, 0.0, sample.attended)
        within = int(np.count_nonzero(steps <= output_token))
        if 0 < within < candidate.most:
            servers.append(candidate.limited(within))
    return servers


def floor_gpus(servers: Sequence[Candidate], sample: Sample, rate: float) -> float:
    """GPUs below which no schedule of steps of these servers serves a rate.

    Steps of n sequences and c tokens of prompts take `serving.step.floor_time` at least. The prices a and b of
    a decoded and a prompt token, in GPU-seconds, that no step of any layout is worth less than, a n + b c <=
    GPUs floor(n, c), bound what any mix of steps and layouts takes for so many of both (linear-programming duality).
    """
    from scipy.optimize import linprog

    points, floors = [], []
    for server in servers:
        table = server.table
        rows, columns = np.meshgrid(table.sequences, table.chunks, indexing="ij")
        known = (rows + columns > 0) & (rows <= server.most)
        points.append(np.stack([rows[known], columns[known]], axis=1))
        floors.append(server.gpus * table.floor[known])
    floor = np.concatenate(floors)
    needed = np.array([float(sample.outputs.mean()), float(sample.fresh.mean())]) * rate
    scale = float(floor.max())
    solved = linprog(
        -needed / needed.max(), A_ub=np.concatenate(points), b_ub=floor / scale, bounds=(0, None),
        method="highs",
    )  # fmt: skip
    return float(np.asarray(solved.x, float) @ needed) * scale if solved.success else 0.0
