"""Servers whose prompts and answers are computed apart: prefill workers, decode workers and the links between.

A prompt is computed by a prefill worker, which sends its keys and values to a decode worker over the adapters of
both (Zhong et al. 2024, DistServe; Patel et al. 2024, Splitwise). Here the decode worker takes the request up with
the last token of the prompt and hands out the first token, so TTFT holds the transfer. Transfers wait for each other
at both ends (M/G/1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Final

from assay.lazy_import import np
from assay.planner.capacity import queues
from assay.planner.capacity.candidates import Candidate
from assay.planner.capacity.objective import Objective
from assay.planner.capacity.replay import Replayed, replay
from assay.planner.capacity.served import (
    Sample,
    Served,
    ServerLimits,
    ServerState,
    highest_kept,
    highest_rate,
    judged,
    saturation,
)
from assay.planner.capacity.step_table import StepTable
from assay.planner.specs import HardwareSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_MOST_WORKERS: Final = 4
"""Workers of either kind in the smallest group of a ratio."""
_PAIRS: Final = 2
"""Pairs of layouts of an accelerator whose groups are looked at."""
_NO_OUTPUT: Final = 1e-9
"""Output tokens of a request on a prefill worker: it decodes nothing."""


@dataclass(frozen=True, slots=True)
class Link:
    """What one GPU sends to another node, through its adapters."""

    bytes_per_second: float
    latency: float

    def seconds(self, prompts: Numbers, kv_bytes: float) -> Numbers:
        """Times of the transfers of prompts, by the bytes of a token on one GPU."""
        times: Numbers = self.latency + prompts * (kv_bytes / self.bytes_per_second)
        return times


def link_of(hardware: HardwareSpec) -> Link | None:
    """The network of an accelerator; None where the catalog does not say."""
    names = ("count", "line_rate", "share", "latency")
    values = [hardware.given.get(f"interconnect.nic.{name}") for name in names]
    if None in values:
        return None
    count, rate, share, latency = (value or 0.0 for value in values)
    return Link(count * rate * share, latency) if count * rate * share > 0 else None


@dataclass(frozen=True)
class ServedApart(Served):
    """Latencies of requests on decode workers, with those of the prefill workers before."""

    prefill: Served
    prefill_gpus: float
    """Share of the GPUs that compute prompts."""

    @property
    def input_share(self) -> float:
        """Share of the cost that input tokens have: that of the prefill workers' GPUs."""
        return self.prefill_gpus


@dataclass(frozen=True)
class Disaggregated(Candidate):
    """A group of prefill and decode workers in a ratio; layout, steps and limits are the decode workers'."""

    prefill: Candidate
    prefills: int
    decodes: int
    link: Link

    @property
    def caches(self) -> int:
        """Servers of a group that have a prefix cache each: those that compute prompts."""
        return self.prefills

    @property
    def gpus(self) -> int:
        """GPUs of a group."""
        return self.prefills * self.prefill.gpus + self.decodes * self._decode_gpus

    @property
    def _decode_gpus(self) -> int:
        return self.batch.tensor * self.batch.pipeline

    @property
    def layout(self) -> str:
        """Workers of both kinds as engines name them (xPyD), and their layouts."""
        return f"{self.prefills}P{self.decodes}D {self.prefill.layout}:{super().layout}"

    def served(
        self, sample: Sample, rate: float, deviations: float, objective: Objective,
        dispersion: float = 1.0,
    ) -> Served:  # fmt: skip
        """What requests see; a first token waits for a prompt, its transfer and a decode step."""
        prefill = self._prefill_state(sample, rate, deviations, dispersion)
        decode = self._decode_state(sample, rate, deviations, dispersion)
        prompts = prefill.first_tokens()
        first = prompts + self._transfers(sample, rate) + decode.first_tokens()
        apart = judged(sample, first, decode.output_tokens(), objective, decode)
        alone = judged(sample, prompts, np.zeros(len(prompts)), Objective(), prefill)
        return ServedApart(
            **{name: getattr(apart, name) for name in Served.__dataclass_fields__},
            prefill=alone, prefill_gpus=self.prefills * self.prefill.gpus / self.gpus,
        )  # fmt: skip

    def _prefill_state(
        self, sample: Sample, rate: float, deviations: float, dispersion: float
    ) -> ServerState:
        asked = replace(sample, outputs=np.full(len(sample.outputs), _NO_OUTPUT))
        # The first token is handed out by the decode worker.
        limits = replace(self.prefill.limits, late_iterations=0.0)
        table = self.prefill.slowed(deviations)
        return ServerState(
            table, asked, rate / self.prefills, limits, _thinned(dispersion, self.prefills)
        )

    def _decode_state(
        self, sample: Sample, rate: float, deviations: float, dispersion: float
    ) -> ServerState:
        # A request has other places in the queues of a decode worker than in those before.
        places = np.roll(sample.uniform, len(sample.outputs) // 3, axis=1)
        taken_up = replace(sample, fresh=np.ones(len(sample.fresh)), uniform=places)
        limits = replace(self.limits, request_seconds=0.0)
        return ServerState(
            self.slowed(deviations), taken_up, rate / self.decodes, limits,
            _thinned(dispersion, self.decodes),
        )  # fmt: skip

    def _transfers(self, sample: Sample, rate: float) -> Numbers:
        """Times of transfers: over the adapters of the narrower worker, after those before at both ends."""
        total = max(self._times(sample.prompts), key=lambda times: float(times.mean()))
        for times, workers, row in zip(
            self._times(sample.prompts), (self.prefills, self.decodes), (2, 4), strict=True
        ):
            waits, below = queues.waiting_times(rate / workers, times)
            places = np.roll(sample.uniform[row], len(times) // 5)
            total = total + queues.inverse(waits, below, places)
        return total

    def _times(self, prompts: Numbers) -> tuple[Numbers, Numbers]:
        """How long prompts take the adapters of a prefill worker, and of a decode worker."""
        return (
            self.link.seconds(prompts, self.prefill.kv_bytes),
            self.link.seconds(prompts, self.kv_bytes),
        )

    def highest(
        self, sample: Sample, deviations: float, objective: Objective, dispersion: float = 1.0
    ) -> float:
        """The highest rate of a group within the objective."""

        def at(rate: float) -> Served:
            return self.served(sample, rate, deviations, objective, dispersion)

        return highest_kept(at, self.saturation(sample, deviations), objective.share)

    def latencies(self, sample: Sample, rate: float, deviations: float) -> tuple[Numbers, Numbers]:
        """TTFT and TPOT of each request of a sample; raises where a worker cannot keep up."""
        prefill = self._prefill_state(sample, rate, deviations, 1.0)
        decode = self._decode_state(sample, rate, deviations, 1.0)
        first = prefill.first_tokens() + self._transfers(sample, rate) + decode.first_tokens()
        return first, decode.output_tokens()

    def saturation(self, sample: Sample, deviations: float) -> float:
        """A rate above what a group completes."""
        asked = replace(sample, outputs=np.full(len(sample.outputs), _NO_OUTPUT))
        taken_up = replace(sample, fresh=np.ones(len(sample.fresh)))
        return min(
            self.prefills * saturation(self.prefill.slowed(deviations), asked, self.prefill.limits),
            self.decodes * saturation(self.slowed(deviations), taken_up, self.limits),
        )

    def drawn(self, sample: Sample, served: Served) -> float | None:
        """Watts of a group; None where the catalog lacks what they follow from."""
        assert isinstance(served, ServedApart)
        prompts = served.prefill
        apart = [
            self.prefill.watts(0.0, sample.context, prompts.step_tokens, prompts.busy),
            self._decoder().watts(served.running, sample.context, served.step_tokens, served.busy),
        ]
        if apart[0] is None or apart[1] is None:
            return None
        return self.prefills * apart[0] + self.decodes * apart[1]

    def _decoder(self) -> Candidate:
        """One decode worker."""
        return Candidate(**{name: getattr(self, name) for name in Candidate.__dataclass_fields__})

    def replayed(
        self, deviations: float, arrivals: Numbers, fresh: Numbers, prompts: Numbers,
        outputs: Numbers, generator: np.random.Generator,
    ) -> Replayed:  # fmt: skip
        """What requests see in a replay of them, each worker and each adapter for itself."""
        limits = (
            replace(self.prefill.limits, late_iterations=0.0),
            replace(self.limits, request_seconds=0.0),
        )
        senders, takers = (
            generator.integers(0, workers, len(arrivals))
            for workers in (self.prefills, self.decodes)
        )
        one = np.ones(len(arrivals))
        computed = _apart(
            self.prefill.slowed(deviations), limits[0], senders, arrivals, (fresh, prompts, one)
        )
        ready = arrivals + computed.first_token
        sending, taking = self._times(prompts)
        begun = _starts(ready, senders, sending)
        there = np.maximum(begun + sending, _starts(begun, takers, taking) + taking)
        answered = _apart(
            self.slowed(deviations), limits[1], takers, there, (one, prompts, outputs)
        )
        before = there - arrivals
        return Replayed(
            before + answered.first_token, answered.output_token, before + answered.end_to_end,
            computed.steps + answered.steps, answered.preempted,
        )  # fmt: skip


def _thinned(dispersion: float, workers: int) -> float:
    return 1 + (dispersion - 1) / workers


def _apart(
    table: StepTable, limits: ServerLimits, workers: NDArray[np.int64], arrivals: Numbers,
    lengths: tuple[Numbers, Numbers, Numbers],
) -> Replayed:  # fmt: skip
    """A replay of workers, each with its requests in the order in which they come."""
    columns = [np.full(len(arrivals), math.nan) for _ in range(3)]
    steps = preempted = 0
    for worker in np.unique(workers):
        own = np.nonzero(workers == worker)[0]
        own = own[np.argsort(arrivals[own], kind="stable")]
        run = replay(table, limits, arrivals[own], *(part[own] for part in lengths))
        for column, part in zip(
            columns, (run.first_token, run.output_token, run.end_to_end), strict=True
        ):
            column[own] = part
        steps += run.steps
        preempted += run.preempted
    return Replayed(columns[0], columns[1], columns[2], steps, preempted)


def _starts(ready: Numbers, workers: NDArray[np.int64], service: Numbers) -> Numbers:
    """When each transfer begins at its worker: first come, first served."""
    starts = np.empty(len(ready))
    free: dict[int, float] = {}
    for index in np.argsort(ready, kind="stable").tolist():
        worker = int(workers[index])
        start = max(float(ready[index]), free.get(worker, 0.0))
        starts[index] = start
        free[worker] = start + float(service[index])
    return starts


def disaggregated(
    servers: Sequence[Candidate], sample: Sample, objective: Objective, deviations: float
) -> list[Disaggregated]:
    """The groups of workers of one accelerator that serve the most by GPU, by what each kind does alone."""
    single = [server for server in servers if server.batch.pipeline == 1]
    link = link_of(single[0].hardware) if single else None
    if link is None:
        return []
    prompts = [_alone(server, sample, objective, deviations, decodes=False) for server in single]
    answers = [_alone(server, sample, objective, deviations, decodes=True) for server in single]
    groups: list[tuple[float, Disaggregated]] = []
    for (prefill, asked), (decode, answered) in product(
        zip(single, prompts, strict=True), zip(single, answers, strict=True)
    ):
        if asked <= 0 or answered <= 0:
            continue
        by_ratio = {
            (p * prefill.gpus + d * decode.gpus) / min(p * asked, d * answered): (p, d)
            for p, d in product(range(1, _MOST_WORKERS + 1), repeat=2)
            if math.gcd(p, d) == 1
        }
        least = min(by_ratio)
        own = {name: getattr(decode, name) for name in Candidate.__dataclass_fields__}
        groups.append((least, Disaggregated(**own, prefill=prefill, link=link,
                                            prefills=by_ratio[least][0],
                                            decodes=by_ratio[least][1])))  # fmt: skip
    groups.sort(key=lambda pair: pair[0])
    return [group for _, group in groups[:_PAIRS]]


def _alone(
    server: Candidate, sample: Sample, objective: Objective, deviations: float, *, decodes: bool
) -> float:
    """The highest rate of a worker that only computes prompts, or only answers, within its own limits."""
    if decodes:
        own = replace(sample, fresh=np.ones(len(sample.fresh)))
        limits = replace(objective, first_token=math.inf)
    else:
        own = replace(sample, outputs=np.full(len(sample.outputs), _NO_OUTPUT))
        limits = Objective(first_token=objective.first_token, share=objective.share)
    return highest_rate(server.slowed(deviations), own, server.limits, limits)
