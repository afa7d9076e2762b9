"""The own engine as a target: decode steps of a fixed batch, with delays in graph and host."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from assay.closing import Closing
from assay.diagnose.delays.design import selected
from assay.diagnose.delays.graph_target import chains
from assay.diagnose.delays.host_delays import PREFIX, SectionDelays
from assay.diagnose.delays.target import Run, TargetNode
from assay.engine.requests.sampling_params import SamplingParams
from assay.engine.runner import recording
from assay.errors import InputError
from assay.observe.capture.operation_names import OperationNames
from assay.runtime.delays import DelaySlots, overshoot_ns

if TYPE_CHECKING:
    from assay.engine import Engine
    from assay.runtime import Stream
    from assay.runtime.graphs import Graph

SETTLING_STEPS: Final = 2
"""Steps of a run before those that are timed: a step that was launched ahead has other delays."""


_HOST_NODES: Final = tuple(
    TargetNode(f"{PREFIX}{section.name}", f"{PREFIX}{section.name}")
    for section in recording.SECTIONS
)


class EngineTarget(Closing):
    """Decode steps of an engine; use it as a context manager.

    The requests have random prompts of `context` tokens. Their contexts grow by a token a step, and
    they begin anew after `window` tokens, from the prefix cache. The time of a step is the host's,
    so that a step which the host holds up hides delays of the device.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        nodes: Sequence[str] | None = None,
        batch: int = 1,
        context: int = 128,
        steps: int = 8,
    ) -> None:
        """Profile decode steps of `batch` sequences; a run times so many steps.

        `nodes` are patterns of the nodes and host sections to delay, by default all.
        """
        self._window: Final = max(4 * (steps + SETTLING_STEPS), context // 8)
        # The first requests decode while the last are in prefill, and share the token budget.
        prefill_budget = max(engine.settings.token_budget - batch, 1)
        most_tokens = self._window + batch * context // prefill_budget + 16
        _check(engine, batch, context, steps, most_tokens)
        self._engine: Final = engine
        self._steps: Final = steps
        self._params: Final = SamplingParams(
            max_tokens=most_tokens, temperature=0.0, ignore_eos=True
        )
        source = random.Random(0)
        vocabulary = engine.model.shape.vocabulary
        self._prompts: Final = [
            [source.randrange(vocabulary) for _ in range(context)] for _ in range(batch)
        ]
        self._requests: list[str] = []
        self._used = 0
        every = [*_graph_nodes(engine, batch), *_HOST_NODES]
        chosen = selected(every, nodes)
        labels = [node.name for node in chosen if node not in _HOST_NODES]
        self._slot_of: Final = {label: slot for slot, label in enumerate(labels)}
        counts = Counter(node.label for node in engine.operations(batch))
        self._nodes_of: Final = [counts[label] for label in labels]
        self._slots: Final = DelaySlots(engine.device, max(len(labels), 1))
        self._host: Final = SectionDelays(engine)
        try:
            self._plain_ns: Final = self._measure_plain()
            recording.set_active(self._host)
            engine.set_delays(self)
            self._laps: Final = self._measure_laps()
        except BaseException:
            self.close()
            raise
        self._overshoot_ns: Final = overshoot_ns(engine.device)
        has_run = {node for node, laps in zip(_HOST_NODES, self._laps, strict=True) if laps}
        self._nodes: Final = tuple(
            node for node in chosen if node not in _HOST_NODES or node in has_run
        )

    @property
    def nodes(self) -> tuple[TargetNode, ...]:
        """The operations of the graph, and the sections of the host that a decode step has."""
        return self._nodes

    @property
    def least_delay_ns(self) -> int:
        """The shortest delay of a node that the target keeps accurately."""
        return self._engine.device.capabilities.least_delay_ns

    def inject(self, graph: Graph, stream: Stream) -> Graph:
        """The graph of a step with a delay before each node; the engine calls it."""
        nodes = {
            index: self._slot_of[node.label]
            for index, node in enumerate(graph.nodes)
            if node.label in self._slot_of
        }
        return graph.with_delays(nodes, self._slots, [stream]) if nodes else graph

    def plain(self) -> float:
        """A step without delay nodes, as it was before they were put in."""
        return self._plain_ns

    def run(self, delays_ns: Mapping[str, int]) -> Run:
        """Run decode steps with these delays."""
        slots = [0] * self._slots.count
        for name, delay_ns in delays_ns.items():
            if name in self._slot_of:
                slots[self._slot_of[name]] = delay_ns
        for index, section in enumerate(recording.SECTIONS):
            self._host.delays_ns[index] = delays_ns.get(f"{PREFIX}{section.name}", 0)
        if self._used + self._steps + SETTLING_STEPS > self._window:
            self._restart()
        self._slots.set(slots)
        for _ in range(SETTLING_STEPS):
            self._step()
        step_ns = self._time()
        self._check_steps(slots)
        # What an undisturbed step waits for: the time of a run is that of such a step.
        device = sum(
            self._nodes_of[slot] * (delay_ns + self._overshoot_ns)
            for slot, delay_ns in enumerate(slots)
            if delay_ns
        )
        host = sum(
            laps * delay_ns for laps, delay_ns in zip(self._laps, self._host.delays_ns, strict=True)
        )
        return Run(step_ns, float(device + host))

    def _check_steps(self, slots: Sequence[int]) -> None:
        """Whether the steps were those that were asked for."""
        running = sum(self._engine.is_under_way(request_id) for request_id in self._requests)
        if running < len(self._requests):
            raise InputError(
                f"delays: expected steps of {len(self._requests)} sequences, got {running}",
                "another call ended requests; profile the engine alone",
            )
        # A change of the engine's settings would remove the delays without a word.
        spent = self._slots.spent_ns()
        if any(delay_ns and not spent[slot] for slot, delay_ns in enumerate(slots)):
            raise InputError(
                "delays: expected steps with delays, got steps whose graphs have none",
                "another call changed the engine; profile it alone",
            )

    def close(self) -> None:
        """End the requests and the delays."""
        for request_id in self._requests:
            if self._engine.is_under_way(request_id):
                self._engine.abort(request_id)
        self._requests = []
        if recording.active is self._host:
            recording.set_active(None)
        self._engine.release_recorder()
        self._engine.set_delays(None)

    def _restart(self) -> None:
        """Begin the requests anew, and run them up to decode."""
        engine = self._engine
        for request_id in self._requests:
            if engine.is_under_way(request_id):
                engine.abort(request_id)
        self._requests = [engine.add_request(prompt, self._params) for prompt in self._prompts]
        waiting = set(self._requests)
        while waiting:
            waiting -= {output.request_id for output in engine.step()}
        self._used = 0

    def _measure_plain(self) -> float:
        """A step before there are delay nodes; the first captures its graph."""
        self._restart()
        self._time()
        return self._time()

    def _measure_laps(self) -> list[int]:
        """How often each section of the host ends in a step."""
        self._restart()
        self._time()
        before = list(self._host.laps)
        self._time()
        return [
            round((after - earlier) / self._steps)
            for after, earlier in zip(self._host.laps, before, strict=True)
        ]

    def _step(self) -> None:
        self._engine.step()
        self._used += 1

    def _time(self) -> float:
        """The lower quartile of step times: what disturbs a step only adds time."""
        times = []
        begin = time.perf_counter_ns()
        for _ in range(self._steps):
            self._step()
            now = time.perf_counter_ns()
            times.append(now - begin)
            begin = now
        return float(sorted(times)[(len(times) - 1) // 4])


def _check(engine: Engine, batch: int, context: int, steps: int, most_tokens: int) -> None:
    limits = {
        "batch": (batch, engine.settings.max_batch),
        "context": (context, engine.context_limit - most_tokens),
        "steps": (steps, 1_000),
    }
    for name, (got, most) in limits.items():
        if not 1 <= got <= most:
            raise InputError(f"{name}: expected from 1 to {most}, got {got}")
    if engine.has_work:
        raise InputError(
            "delays: expected an idle engine, got one with requests", "finish or abort them first"
        )
    if recording.active is not None:
        raise InputError("delays: expected no capture under way, got one")
    # A cache that grows or runs out of blocks in a run would rebuild graphs and preempt requests.
    block = engine.settings.block_tokens
    needed = batch * block * -(-(context + most_tokens + block) // block)
    if (holds := engine.reserve_kv_cache(needed)) < needed:
        raise InputError(
            f"kv_tokens: expected a KV cache of at least {needed:,} tokens for {batch} sequences of "
            f"{context}, got {holds:,}",
            f"load the engine with kv_tokens {needed:,} (--kv-tokens), or profile a smaller batch",
        )


def _graph_nodes(engine: Engine, batch: int) -> list[TargetNode]:
    """The operations of a decode step by label; a label that occurs twice is one node."""
    names = OperationNames(engine.model)
    operations = engine.operations(batch)
    by_label = {
        node.label: TargetNode(
            node.label,
            names.meaning(node.label, node.operation, None).operation or node.label,
            chain,
        )
        for node, chain in zip(operations, chains(operations), strict=True)
    }
    return list(by_label.values())
