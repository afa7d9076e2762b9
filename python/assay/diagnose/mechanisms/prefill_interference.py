"""Prefill interference: steps that compute prompts delay the tokens of running sequences."""

from __future__ import annotations

import numpy as np

from assay.diagnose.mechanisms.findings import Finding, MechanismEstimate
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
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


MECHANISM = Mechanism(
    "prefill interference",
    "prompts of new requests run in steps that running sequences have to wait for",
    "prefill and mixed steps between decode steps",
    "smaller prefill chunks (max_num_batched_tokens), or prefill on other GPUs (disaggregation)",
    find,
)
