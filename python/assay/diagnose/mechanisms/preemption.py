"""Pre-emption: sequences lose their KV blocks and are computed again."""

from __future__ import annotations

import numpy as np

from assay.diagnose.mechanisms import states
from assay.diagnose.mechanisms.findings import Finding, MechanismEstimate, NotExamined
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
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


MECHANISM = Mechanism(
    "pre-emption",
    "the KV cache is full: a running sequence gives up its blocks and its tokens are computed again",
    "the engine's count of pre-empted requests",
    "more KV memory (gpu_memory_utilization, fp8 KV cache), fewer sequences at once (max_num_seqs)",
    find,
)
