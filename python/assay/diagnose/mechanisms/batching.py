"""What requests do to each other: experts, prefill, pre-emption, blocks of the KV cache."""

from __future__ import annotations

import numpy as np

from assay.array_types import Floats
from assay.diagnose.mechanisms import states
from assay.diagnose.mechanisms.classes import EXPERTS
from assay.diagnose.mechanisms.findings import (
    Finding,
    MechanismClaim,
    MechanismEstimate,
    NotExamined,
)
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def _find_expert_imbalance(view: MechanismView) -> Finding:
    """Waiting in the exchange between ranks; one rank alone does not show it."""
    if not view.with_operation(EXPERTS).any():
        return None
    exchange = view.with_operation({"all_to_all"}) & view.of_terms(
        "kernel_inefficiency", "lost_overlap"
    )
    if not exchange.any() or view.residuals.trace.events["rank"].drop_nulls().n_unique() < 2:
        return NotExamined("traces of all expert-parallel ranks, or the tokens of each expert")
    return MechanismClaim(
        exchange, ("ranks wait for each other in the exchange of tokens",), within="collective wait"
    )


EXPERT_IMBALANCE = Mechanism(
    "expert imbalance",
    "the rank with the most tokens finishes last, and the exchange waits for it",
    "all-to-all kernels of several ranks",
    "expert parallel load balancing (EPLB), redundant experts, or a larger batch",
    _find_expert_imbalance,
)


def _find_prefill_interference(view: MechanismView) -> Finding:
    """What prefill and mixed steps between decode steps add to the mean time per token."""
    steps = view.all_steps
    phase = np.array(steps["phase"].to_list(), object)
    took = steps["observed_ns"].to_numpy().astype(np.float64)
    decode = np.flatnonzero(phase == "decode")
    if not len(decode):
        return None
    between = np.zeros(len(phase), bool)
    between[decode[0] : decode[-1]] = True
    disturbing = between & np.isin(phase, ["prefill", "mixed"])
    if not disturbing.any():
        return None
    usual = float(np.median(took[decode]))
    # A mixed step makes a token for running sequences, a prefill step none.
    excess = took - np.where(phase == "mixed", usual, 0.0)
    tokens = len(decode) + int((phase == "mixed")[between].sum())
    per_token = float(np.maximum(excess[disturbing], 0.0).sum()) / tokens
    spread = float(np.maximum(excess[disturbing], 0.0).std()) * disturbing.sum() ** 0.5 / tokens
    return MechanismEstimate(
        per_token,
        max(per_token - 1.645 * spread, 0.0),
        per_token + 1.645 * spread,
        (
            f"{int(disturbing.sum())} prefill or mixed steps among {len(decode)} decode steps, "
            f"median {float(np.median(took[disturbing])) / 1e3:,.0f} us against {usual / 1e3:,.0f} us",
        ),
        beyond_step=True,
    )


PREFILL_INTERFERENCE = Mechanism(
    "prefill interference",
    "prompts of new requests run in steps that running sequences have to wait for",
    "prefill and mixed steps between decode steps",
    "smaller prefill chunks (max_num_batched_tokens), or prefill on other GPUs (disaggregation)",
    _find_prefill_interference,
)


def _find_preemption(view: MechanismView) -> Finding:
    """Requests pre-empted while the trace ran, and prefill steps in between as their cost."""
    for source in ("engine", "endpoint"):
        joined = states.samples(view, source, "engine_preemptions")
        if not isinstance(joined, NotExamined):
            break
    if isinstance(joined, NotExamined):
        return joined
    counter = joined.sort("start_ns")["engine_preemptions"].to_numpy()
    happened = int(counter[-1] - counter[0])
    if happened <= 0:
        return None
    times = view.all_steps
    again = np.array([phase in ("prefill", "mixed") for phase in times["phase"].to_list()])
    took = times["observed_ns"].to_numpy().astype(np.float64)
    per_token = float(took[again].sum()) / max(int((~again).sum()), 1)
    return MechanismEstimate(
        per_token if again.any() else 0.0,
        0.0,
        per_token if again.any() else 0.0,
        (
            f"{happened} requests were pre-empted; prefill and mixed steps take "
            f"{per_token / 1e3:,.1f} us per decode step, of which recomputation is a part",
        ),
        source="telemetry",
        beyond_step=True,
        within="prefill interference",
    )


PREEMPTION = Mechanism(
    "pre-emption",
    "the KV cache is full: a running sequence gives up its blocks and its tokens are computed again",
    "the engine's count of pre-empted requests",
    "more KV memory (gpu_memory_utilization, fp8 KV cache), fewer sequences at once (max_num_seqs)",
    _find_preemption,
)


ROOM = 0.9
"""Share of the KV cache in use below which a waiting request should have found room."""


AT_LIMIT = 0.9
"""Share of samples with one number of running requests, from which on that number is a limit."""


def _is_at_limit(running: Floats, most: float) -> bool:
    """Whether as many requests run as ever do, nearly all of the time."""
    return float((running >= most).mean()) >= AT_LIMIT


def _find_fragmentation(view: MechanismView) -> Finding:
    """Steps with requests waiting beside free blocks, against the others."""
    fields = ("engine_kv_cache_usage", "engine_requests_waiting", "engine_requests_running")
    for source in ("engine", "endpoint"):
        joined = states.samples(view, source, *fields)
        if not isinstance(joined, NotExamined):
            break
    if isinstance(joined, NotExamined):
        return joined
    used, waiting, running = (joined[name].to_numpy() for name in fields)
    took = joined["dur_ns"].to_numpy().astype(np.float64)
    held = (waiting > 0) & (used < ROOM)
    if held.any() and _is_at_limit(running[held], float(running.max())):
        # Requests wait for a place among the sequences, whatever the cache has free.
        return None
    return states.contrast(view, held, took, f"requests waiting with the KV cache below {ROOM:.0%}")


FRAGMENTATION = Mechanism(
    "fragmentation",
    "free KV blocks, or captured batch sizes, do not fit what waits, so batches stay smaller than "
    "memory allows",
    "KV cache usage and waiting requests of the engine",
    "smaller KV blocks, more captured batch sizes, or a higher limit of sequences",
    _find_fragmentation,
)
