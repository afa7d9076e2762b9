"""Each mechanism on a step made by hand: which intervals it claims, and which it leaves."""

from typing import Any

import polars as pl
import pytest

from assay.diagnose.attribution import attribute
from assay.diagnose.mechanisms.catalog import MECHANISMS
from assay.diagnose.mechanisms.findings import MechanismClaim, MechanismEstimate, NotExamined
from assay.diagnose.mechanisms.view import MechanismView
from assay.diagnose.residuals import NO_PREDICTION, Residuals
from assay.diagnose.terms import TERMS, Term, Waterfall
from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace
from assay.planner.graph import Graph, Node

Piece = tuple[str, int, dict[str, Any]]
"""A term, its nanoseconds, and the event of a kernel or the call behind a gap."""


def kernel(operation: str | None, took: int, **more: Any) -> dict[str, Any]:
    return {"kind": "kernel", "name": "k", "op": operation, "event_ns": took, **more}


def copy(took: int) -> dict[str, Any]:
    return {"kind": "memcpy", "name": "Memcpy HtoD", "op": "prepare_inputs", "event_ns": took}


def call(name: str, start: int, took: int) -> dict[str, Any]:
    return {"kind": "api", "name": name, "at": start, "event_ns": took, "gap": True}


def residuals(
    *pieces: Piece, phases: tuple[str, ...] = ("decode",) * 3, **header: Any
) -> Residuals:
    """Steps of the same pieces one after another; a phase other than decode is 1 ms of kernels."""
    events, intervals, steps = [], [], []
    clock = 1_000_000
    for number, phase in enumerate(phases):
        start = clock
        parts = pieces if phase == "decode" else (("unknown", 1_000_000, kernel(None, 1_000_000)),)
        for term, took, event in parts:
            is_gap = bool(event.get("gap"))
            intervals.append(
                {
                    "step": number,
                    "rank": None,
                    "device": 0,
                    "term": term,
                    "start_ns": clock,
                    "dur_ns": took,
                    "row": None if is_gap or not event else len(events),
                    "operation": event.get("op"),
                    "layer": None,
                    "cause": len(events) if is_gap else None,
                }
            )
            if event:
                events.append(
                    {
                        "kind": event["kind"],
                        "name": event["name"],
                        "op": event.get("op"),
                        "start_ns": clock + event.get("at", 0),
                        "dur_ns": event["event_ns"],
                        "device": 0,
                        "stream": 7,
                        "rank": event.get("rank"),
                        "correlation": event.get("correlation"),
                        "step": number,
                    }
                )
            clock += took
        steps.append(
            {
                "step": number, "rank": None, "device": 0, "phase": phase, "start_ns": start,
                "observed_ns": clock - start, "is_whole": True, "is_predicted": True,
            }
        )  # fmt: skip
    nullable = {"rank": pl.Int32, "device": pl.Int32}
    table = pl.DataFrame(
        intervals,
        schema_overrides={**nullable, "row": pl.Int64, "cause": pl.Int64, "operation": pl.String,
                          "layer": pl.Int32},
    )  # fmt: skip
    trace = Trace(
        TraceHeader(**header), schema.complete(pl.DataFrame(events, infer_schema_length=None))
    )
    shown = phases.index("decode")
    mine = table.filter(pl.col("step") == shown)
    sums = {name: int(mine.filter(pl.col("term") == name)["dur_ns"].sum()) for name in TERMS}
    terms = tuple(Term(name, ns, ns, ns) for name, ns in sums.items())
    frame = pl.DataFrame(steps, schema_overrides=nullable)
    return Residuals(
        trace, NO_PREDICTION, table, frame, pl.DataFrame(), pl.DataFrame(),
        Waterfall(shown, sum(sums.values()), terms),
    )  # fmt: skip


def found(name: str, *pieces: Piece, **more: Any) -> Any:
    mechanism = next(one for one in MECHANISMS if one.name == name)
    return mechanism.find(MechanismView(residuals(*pieces, **more), NO_PREDICTION))


def claimed(name: str, *pieces: Piece, **more: Any) -> list[int]:
    """Nanoseconds of the intervals that a mechanism claims in the first step."""
    data = residuals(*pieces, **more)
    view = MechanismView(data, NO_PREDICTION)
    finding = next(one for one in MECHANISMS if one.name == name).find(view)
    if finding is None:
        return []
    assert isinstance(finding, MechanismClaim)
    rows = view.intervals.filter(finding.intervals & view.in_shown_step)
    return rows["dur_ns"].to_list()


BUSY: Piece = ("floor", 50_000, kernel("qkv_proj", 60_000))
SLOW: Piece = ("kernel_inefficiency", 10_000, kernel("qkv_proj", 60_000))

CASES: dict[str, tuple[str, list[Piece], list[int]]] = {
    "linear layers": (
        "small-batch GEMM inefficiency",
        [BUSY, SLOW, ("kernel_inefficiency", 7_000, kernel("input_norm+down_proj", 9_000)),
         ("kernel_inefficiency", 900, kernel("experts_down", 9_000))],
        [10_000, 7_000],
    ),
    "experts": (
        "grouped GEMM inefficiency",
        [BUSY, SLOW, ("kernel_inefficiency", 900, kernel("experts_down", 9_000))],
        [900],
    ),
    "short kernels": (
        "small kernels",
        [BUSY, SLOW, ("kernel_inefficiency", 2_000, kernel("rope", 2_000)),
         ("kernel_inefficiency", 8_000, kernel("activation", 8_000)),
         ("kernel_inefficiency", 500, kernel(None, 500))],
        [2_000],
    ),
    "longer kernels": (
        "element-wise kernels",
        [BUSY, SLOW, ("kernel_inefficiency", 2_000, kernel("rope", 2_000)),
         ("kernel_inefficiency", 8_000, kernel("activation", 8_000))],
        [8_000],
    ),
    "sampling": (
        "sampling",
        [BUSY, ("kernel_inefficiency", 3_000, kernel("sampling", 3_000)),
         ("kernel_inefficiency", 1_000, kernel("select_logits", 1_000))],
        [3_000, 1_000],
    ),
    "collectives": (
        "collective wait",
        [BUSY, ("kernel_inefficiency", 6_000, kernel("all_reduce", 9_000)),
         ("lost_overlap", 2_000, kernel("all_gather", 2_000))],
        [6_000, 2_000],
    ),
    "copies": (
        "copy on the critical path",
        [BUSY, ("lost_overlap", 1_500, copy(1_500)), ("lost_overlap", 900, kernel("rope", 900))],
        [1_500],
    ),
    "second stream": (
        "missing overlap",
        [BUSY, ("lost_overlap", 1_500, copy(1_500)), ("lost_overlap", 900, kernel("rope", 900)),
         ("lost_overlap", 300, kernel("all_reduce", 300))],
        [900],
    ),
    "waits": (
        "synchronization",
        [BUSY, ("synchronization", 4_000, call("cudaStreamSynchronize", -2_000, 6_000)), SLOW],
        [4_000],
    ),
    "stalls": (
        "host scheduling",
        [BUSY, ("host_stalls", 9_000, call("cudaGraphLaunch", 9_000, 4_000)), SLOW],
        [9_000],
    ),
    "late launches": (
        "host launch",
        [BUSY, ("launch_gaps", 3_000, call("cudaLaunchKernel", 500, 2_000)), SLOW,
         ("host_stalls", 90_000, call("cudaLaunchKernel", 80_000, 5_000)), BUSY],
        [3_000],
    ),
    "launches that bound the step": (
        "host launch",
        [BUSY, ("launch_gaps", 30_000, call("cudaLaunchKernel", 20_000, 9_000)), SLOW,
         ("host_stalls", 9_000, call("cudaLaunchKernel", 1_000, 5_000)), BUSY],
        [30_000, 9_000],
    ),
    "kernels queued ahead": (
        "stream dispatch gaps",
        [BUSY, ("launch_gaps", 800, call("cudaLaunchKernel", -90_000, 4_000)), SLOW],
        [800],
    ),
    "graph nodes": (
        "CUDA-graph node gaps",
        [("floor", 50_000, kernel("qkv_proj", 60_000, correlation=7)),
         ("launch_gaps", 700, call("cudaGraphLaunch", -90_000, 4_000)),
         ("floor", 50_000, kernel("o_proj", 60_000, correlation=7)),
         ("launch_gaps", 600, call("cudaGraphLaunch", -90_000, 4_000)),
         ("floor", 50_000, kernel("o_proj", 60_000, correlation=8))],
        [700],
    ),
    "clocks": ("throttling", [BUSY, ("throttling", 2_500, kernel("lm_head", 9_000))], [2_500]),
    "other processes": (
        "noisy neighbor",
        [BUSY, ("queueing", 8_000, call("cudaLaunchKernel", -90_000, 4_000)), SLOW],
        [8_000],
    ),
    "records of the profiler": (
        "profiler overhead",
        [BUSY, ("profiler_overhead", 2_000, call("Activity Buffer Request", 0, 2_000)), SLOW],
        [2_000],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_mechanism_claims_its_own(case: str) -> None:
    name, pieces, expected = CASES[case]
    assert claimed(name, *pieces) == expected


@pytest.mark.parametrize("case", CASES)
def test_another_step_has_nothing_of_it(case: str) -> None:
    name, _, _ = CASES[case]
    finding = found(name, BUSY)
    assert not isinstance(finding, MechanismClaim)


@pytest.mark.parametrize(
    ("above", "reads"),
    # Two kernels: no more than 20 us are theirs whatever the context.
    [(15_000, 5_000), (40_000, 20_000)],
)
def test_attention_is_split_by_the_bytes_it_reads(above: int, reads: int) -> None:
    # GEMMs reach 80 % of the ceiling: the cache of 20 us of floor is read in 25 us.
    pieces: list[Piece] = [
        ("floor", 40_000, kernel("qkv_proj", 50_000)),
        ("kernel_inefficiency", 10_000, kernel("qkv_proj", 50_000)),
        ("floor", 20_000, kernel("attention", 30_000)),
        ("kernel_inefficiency", above, kernel("attention", 30_000)),
    ]
    causes = {one.name: one for one in attribute(residuals(*pieces), NO_PREDICTION)}
    assert causes["KV cache reads"].ns_per_token == pytest.approx(reads)
    assert causes["attention kernel latency"].ns_per_token == pytest.approx(above - reads)


def test_attention_beside_compute_bound_layers_is_reads_where_they_are_most_of_it() -> None:
    for floor, reads in ((30_000, 10_000), (5_000, None)):
        pieces: list[Piece] = [
            ("floor", floor, kernel("attention", 40_000)),
            ("kernel_inefficiency", 10_000, kernel("attention", 40_000)),
        ]
        causes = {one.name: one for one in attribute(residuals(*pieces), NO_PREDICTION)}
        found = causes.get("KV cache reads")
        assert (found and found.ns_per_token) == reads


def test_compute_bound_layers_have_a_cause_of_their_own() -> None:
    node = Node(
        "qkv", "qkv_proj", 0, "decode", 1e9, 1e6, 1e6, 40_000, 50_000, 45_000, 60_000, "compute",
        0, (), (),
    )  # fmt: skip
    graph = Graph((node,), {}, "m", "g", "vllm", {})
    pieces: list[Piece] = [BUSY, SLOW, ("kernel_inefficiency", 700, kernel("o_proj", 9_000))]
    causes = {one.name: one for one in attribute(residuals(*pieces), graph)}
    assert causes["compute-bound GEMM inefficiency"].ns_per_token == 10_000
    assert causes["small-batch GEMM inefficiency"].ns_per_token == 700


def test_mixed_steps_add_to_the_mean_token() -> None:
    finding = found(
        "prefill interference", BUSY, SLOW,
        phases=("decode", "decode", "mixed", "decode", "prefill", "decode"),
    )  # fmt: skip
    assert isinstance(finding, MechanismEstimate)
    # A mixed step makes a token itself; a prefill step makes none.
    assert finding.ns_per_token == pytest.approx((1_000_000 - 60_000 + 1_000_000) / 5)
    assert finding.beyond_step


def test_a_prompt_before_the_first_token_disturbs_nobody() -> None:
    phases = ("prefill", "decode", "decode")
    assert found("prefill interference", BUSY, SLOW, phases=phases) is None


def test_experts_of_one_rank_do_not_show_their_balance() -> None:
    piece = ("kernel_inefficiency", 900, kernel("experts_down", 9_000))
    finding = found("expert imbalance", BUSY, piece)
    assert isinstance(finding, NotExamined)
    assert found("expert imbalance", BUSY) is None


def test_experts_of_several_ranks_wait_in_the_exchange() -> None:
    pieces: list[Piece] = [
        ("kernel_inefficiency", 900, kernel("experts_down", 9_000, rank=0)),
        ("kernel_inefficiency", 5_000, kernel("all_to_all", 9_000, rank=1)),
    ]
    causes = attribute(residuals(BUSY, *pieces), NO_PREDICTION)
    named = {one.name: one for one in causes}
    assert named["expert imbalance"].within == "collective wait"
    assert named["expert imbalance"].ns_per_token == named["collective wait"].ns_per_token == 5_000


def test_time_that_nobody_claims_is_said() -> None:
    causes = attribute(residuals(BUSY, ("unknown", 20_000, kernel(None, 20_000))), NO_PREDICTION)
    assert any("20.0 us of the step (28.6 %) have no cause" in one for one in causes.degradations)
