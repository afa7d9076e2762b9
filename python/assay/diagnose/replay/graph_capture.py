"""`launch=graph`: the kernels of each forward pass as one CUDA graph.

The first launch of a pass becomes the launch of the graph; the host work and launches up to the
last one vanish, and the kernels follow each other as the nodes of a graph do.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from assay.array_types import Flags, Ints
from assay.diagnose.replay.edges import GRAPH, LAUNCH, STREAM, THREAD
from assay.diagnose.replay.scenario import Scenario
from assay.errors import InputError
from assay.lazy_import import np
from assay.observe.operations import parts

if TYPE_CHECKING:
    pass

OF_PASS: Final = ("embedding", "final_norm")
"""Operations besides those of layers that engines capture; sampling is launched apart."""
NODE_GAP_NS: Final = 416
"""The median gap between two nodes of a graph in traces of vLLM 0.24 on an H200: 416 ns for Llama
at batch 1 and Qwen3-MoE, 417 at batch 64."""
TEXT: Final = 'change "launch=graph"'


def capture(scenario: Scenario, node_gap_ns: float | None = None) -> None:
    """Replace the launches of each forward pass; `node_gap_ns` is the gap between graph nodes."""
    edges, place = scenario.edges, scenario.place()
    launch = edges.kind == LAUNCH
    call_of = np.full(len(edges.rows), -1, np.int64)
    call_of[place[edges.dst[launch]]] = place[edges.src[launch]]
    in_graph = np.zeros(len(edges.rows), np.bool_)
    in_graph[place[edges.dst[edges.kind == GRAPH]]] = True
    in_pass = _of_pass(scenario) & (scenario.step >= 0)
    if not in_pass.any():
        raise InputError(
            f"{TEXT}: the trace has no kernels of layers", "name the model of the trace by --model"
        )
    eager = in_pass & (call_of >= 0) & ~in_graph
    if eager.sum() < in_pass.sum() / 2:
        raise InputError(
            f"{TEXT}: {int(in_graph[in_pass].sum())} of {int(in_pass.sum())} kernels of forward "
            "passes run in graphs already"
        )
    first, last = _bounds(scenario, call_of, eager)
    removed = _between(scenario, place, first, last)
    captured = (call_of >= 0) & (removed[call_of.clip(0)] | np.isin(call_of, first))
    _rewire(scenario, place, removed, captured, _node_gap(scenario, node_gap_ns))
    # Where the graph starts, the call that launched the first kernel stands for it.
    scenario.notes.append(
        f"launch=graph: {int(captured.sum()):,} kernels in {len(first):,} graphs; the launch of a "
        "graph is taken to cost the host what the launch of a kernel does"
    )


def _of_pass(scenario: Scenario) -> Flags:
    whole = {name: bool(set(parts(name)) & set(OF_PASS)) for name in set(scenario.operation)}
    named = np.array([whole[name] for name in scenario.operation], np.bool_)
    return scenario.is_device & (scenario.is_layer | named)


def _bounds(scenario: Scenario, call_of: Ints, eager: Flags) -> tuple[Ints, Ints]:
    """The first and the last call of each forward pass."""
    kernels = np.flatnonzero(eager)
    step, begins = scenario.step[kernels], scenario.start[call_of[kernels]]
    order = np.lexsort((begins, step))
    kernels, step = kernels[order], step[order]
    edge = np.flatnonzero(np.diff(step)) + 1
    firsts = np.concatenate([[0], edge]).astype(np.int64)
    lasts = np.concatenate([edge - 1, [len(kernels) - 1]]).astype(np.int64)
    return call_of[kernels[firsts]], call_of[kernels[lasts]]


def _between(scenario: Scenario, place: Ints, first: Ints, last: Ints) -> Flags:
    """Host nodes after the first call of a pass, up to its last."""
    edges = scenario.edges
    thread = edges.kind == THREAD
    # Nodes of threads in order of their starts: a pass is a stretch of one thread.
    on_thread = np.unique(
        np.concatenate([place[edges.src[thread]], place[edges.dst[thread]], first, last])
    )
    order = on_thread[np.argsort(scenario.start[on_thread], kind="stable")]
    begins = scenario.start[order]
    inside = np.zeros(len(begins) + 1, np.int64)
    np.add.at(inside, np.searchsorted(begins, scenario.start[first], "right"), 1)
    np.add.at(inside, np.searchsorted(begins, scenario.start[last], "right"), -1)
    removed = np.zeros(len(edges.rows), np.bool_)
    removed[order[np.cumsum(inside[:-1]) > 0]] = True
    return removed


def _node_gap(scenario: Scenario, given: float | None) -> int:
    usual = scenario.edges.usual_ns
    if given is not None:
        return round(given)
    if "graph" in usual:
        return usual["graph"]
    gap = min(NODE_GAP_NS, usual.get("stream", NODE_GAP_NS))
    scenario.notes.append(
        f"launch=graph: the trace has no graphs; nodes follow each other after {gap:,} ns, as in "
        "graphs of vLLM on an H200"
    )
    return gap


def _rewire(scenario: Scenario, place: Ints, removed: Flags, captured: Flags, gap: int) -> None:
    edges = scenario.edges
    src, dst = place[edges.src], place[edges.dst]
    lag, kind, work = edges.lag_ns.copy(), edges.kind.copy(), edges.work_ns.copy()
    work[removed] = 0
    lag[(kind == THREAD) & removed[dst]] = 0
    nodes = (kind == STREAM) & captured[src] & captured[dst]
    nodes &= scenario.step[src] == scenario.step[dst]
    kind[nodes], lag[nodes] = GRAPH, gap
    kept = ~((kind == LAUNCH) & removed[src])
    scenario.edges = dataclasses.replace(
        edges, src=edges.src[kept], dst=edges.dst[kept], kind=kind[kept], lag_ns=lag[kept],
        binding=edges.binding[kept], work_ns=work,
    )  # fmt: skip
