"""Measures blocks: the same requests for both arms, each block judged when it is measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from assay.errors import InputError
from assay.improve.engines.protocol import RESIDENT, Engine
from assay.improve.experiments.result import Arm, Block, GateResult
from assay.load.metrics import is_latency
from assay.load.workloads.measurement import Measurement
from assay.load.workloads.ramp import RAMP, ramp_length
from assay.load.workloads.workload import Window, Workload

UNKNOWN_NOISE: Final = 0.05
"""Log-ratio of two blocks that agree, where the noise is not known yet."""
LEAST_TOLERANCE: Final = 0.01
RESTART_SHARE: Final = 0.05
"""Length of a block as a share of a restart; a visit has several."""
MOST_LENGTHENED: Final = 64

LEAST_TRIED: Final = 6
"""Pairs before dropped ones can end an experiment."""
MOST_DROPPED: Final = 0.5

OnBlock = Callable[[Block], None]
Message = Mapping[str, Any]


class Measured(NamedTuple):
    """A block, and the window that it comes from."""

    block: Block
    measurement: Measurement


class BlockMeter:
    """Measures one block after the other and keeps them."""

    def __init__(
        self,
        engine: Engine,
        workload: Workload,
        experiment: str,
        requests: int,
        on_block: OnBlock | None = None,
        first_request: int = 0,
        earlier: Sequence[Block] = (),
    ) -> None:
        """Blocks of `requests` requests, from a request on, behind `earlier` ones.

        `on_block` sees each as soon as it is measured.
        """
        self._first_request = first_request
        self.blocks: list[Block] = list(earlier)
        self._engine = engine
        self._workload = workload
        self._experiment = experiment
        self._requests = requests
        self._on_block = on_block

    def requests_of(self, place: int) -> list[int]:
        """The requests of the workload that a block asks for."""
        first, count = self._first_request + place * self._requests, len(self._workload.requests)
        return [(first + at) % count for at in range(self._requests)]

    def measure(
        self,
        arm: Arm,
        pair: int,
        place: int = 0,
        warmup_requests: int = 0,
        dropped: str = "",
        mark: str = "",
    ) -> Measured:
        """Measure a block: `place` is which requests, the same for the arms of a pair.

        With a `mark` the requests are new to the server: it stands behind each prompt.
        """
        first = self._first_request + place * self._requests
        offset = first % max(len(self._workload.requests), 1)
        window = Window(requests=self._requests, warmup_requests=warmup_requests, offset=offset)
        workload = marked(self._workload, mark) if mark else self._workload
        measurement = self._engine.measure(workload, window)
        metric = self._workload.objective.metric
        why = dropped or drop_reason(measurement, metric)
        block = Block(
            experiment=self._experiment,
            index=len(self.blocks),
            pair=pair,
            arm=arm,
            started_at=measurement.started_at,
            seconds=measurement.seconds,
            value=value_of(measurement, metric, why),
            output_tokens=measurement.output_tokens,
            requests=len(measurement.records),
            load_state=measurement.load_state,
            settings=dict(measurement.settings),
            dropped=why,
            figures={**measurement.figures, **_memory(measurement)},
        )
        self.blocks.append(block)
        if self._on_block is not None:
            self._on_block(block)
        return Measured(block, measurement)


def marked(workload: Workload, mark: str) -> Workload:
    """The same requests in other words: what prompts share they still share, and none was asked before."""
    requests = (
        replace(
            request,
            prompt=f"{request.prompt} {mark}",
            messages=marked_messages(request.messages, mark),
        )
        for request in workload.requests
    )
    return replace(workload, requests=tuple(requests))


def marked_messages(messages: Sequence[Message], mark: str) -> tuple[Message, ...]:
    """A conversation whose last message that has a text ends otherwise.

    >>> marked_messages(({"role": "user", "content": "Why?"}, {"role": "tool", "content": None}), "7")
    ({'role': 'user', 'content': 'Why? 7'}, {'role': 'tool', 'content': None})
    """
    last = max((at for at, message in enumerate(messages) if message.get("content")), default=-1)
    return tuple(
        {**message, "content": _marked(message["content"], mark)} if at == last else message
        for at, message in enumerate(messages)
    )


def _marked(content: Any, mark: str) -> Any:
    return (
        f"{content} {mark}"
        if isinstance(content, str)
        else [*content, {"type": "text", "text": mark}]
    )


def _memory(measurement: Measurement) -> dict[str, float]:
    """The memory of the engine's processes after a block, where it is known."""
    resident = measurement.details.get(RESIDENT)
    return {RESIDENT: float(resident)} if isinstance(resident, int | float) else {}


def drop_reason(measurement: Measurement, metric: str) -> str:
    """Why a block does not count; empty where it does."""
    if measurement.disturbances:
        return f"disturbed: {'; '.join(measurement.disturbances)}"
    if measurement.load_state == "overloaded" and is_latency(metric):
        return "overloaded: the queue grows, so latencies are not scored"
    if measurement.records and measurement.errors == len(measurement.records):
        return "every request failed"
    value = measurement.figures.get(metric)
    if value is not None and not (math.isfinite(value) and value > 0.0):
        return f"{metric} is {value:g}: no ratio"
    return ""


def value_of(measurement: Measurement, metric: str, dropped: str) -> float:
    """The objective's figure; a block that counts must have one."""
    value = measurement.figures.get(metric)
    if value is not None:
        return value
    if dropped:
        return 0.0
    raise InputError(
        f'objective "{metric}": expected a figure of the window, got none',
        f"figures: {', '.join(sorted(measurement.figures))}",
    )


def requests_for(
    engine: Engine, workload: Workload, seconds: float, trial: Measurement | None = None
) -> int:
    """The number of requests that take about `seconds` with the current settings.

    In a closed loop it is a multiple of the concurrency: a window that ends on a full wave is
    less noisy. A ramp is measured whole.
    """
    if workload.arrival == RAMP:
        return ramp_length(workload)
    if workload.rate is not None:
        return max(1, math.ceil(workload.rate * seconds))
    wave = max(1, min(workload.concurrency or 1, len(workload.requests)))
    window = trial or engine.measure(workload, Window(requests=wave))
    if not window.records or not window.seconds > 0.0:
        raise InputError(
            f'workload "{workload.name}": expected requests to end in a window, got none'
        )
    rate = len(window.records) / window.seconds
    return wave * max(1, math.ceil(seconds * rate / wave))


def lengthened(block_s: float, switch_s: float, hot: bool) -> int:
    """The factor by which blocks are lengthened, so that most of the time is spent measuring.

    >>> lengthened(0.5, 0.1, hot=True), lengthened(0.5, 2.0, hot=True), lengthened(0.5, 100.0, hot=False)
    (1, 4, 10)
    """
    share = 1.0 if hot else RESTART_SHARE
    return max(1, min(math.ceil(share * switch_s / block_s), MOST_LENGTHENED))


def settle(
    meter: BlockMeter,
    arm: Arm,
    noise_sd: float | None,
    most: int,
    has_time: Callable[[], bool] = lambda: True,
) -> str:
    """Measure and drop blocks until two in a row agree within the noise; why not, where they do not.

    At least one block is measured; `has_time` says whether there is time for another.
    """
    tolerance = UNKNOWN_NOISE if noise_sd is None else max(3.0 * noise_sd, LEAST_TOLERANCE)
    before = math.nan
    for count in range(1, most + 1):
        now = meter.measure(arm, -1, dropped="warm-up").block.value
        if before > 0.0 < now and abs(math.log(now / before)) <= tolerance:
            return ""
        before = now
        if not has_time():
            return f"{arm}: no time to see it settle after {count} warm-up blocks"
    return f"{arm}: not settled after {most} warm-up blocks"


def dropped_counts(blocks: Sequence[Block]) -> Mapping[str, int]:
    """How many blocks were dropped, by the first word of the reason: warm-up, disturbed ..."""
    counts: dict[str, int] = {}
    for block in blocks:
        if block.dropped:
            word = block.dropped.split(":")[0]
            counts[word] = counts.get(word, 0) + 1
    return counts


def dropped_notes(blocks: Sequence[Block]) -> list[str]:
    """Dropped blocks by reason, a sentence each."""
    return [f"{count} blocks dropped: {word}" for word, count in dropped_counts(blocks).items()]


def dropping_gate(blocks: Sequence[Block], tried: int, counted: int) -> GateResult | None:
    """A gate that fails where most pairs were dropped: the rest does not represent the machine."""
    dropped = tried - counted
    if tried < LEAST_TRIED or dropped <= MOST_DROPPED * tried:
        return None
    counts = dropped_counts(blocks)
    names = ", ".join(f"{word} {count}" for word, count in counts.items())
    statement = f"{dropped} of {tried} pairs dropped: {names}"
    return GateResult("undisturbed", False, statement, {"dropped": dict(counts)})
