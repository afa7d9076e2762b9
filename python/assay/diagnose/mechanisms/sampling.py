"""Sampling: from the logits to a token that the host sees."""

from __future__ import annotations

from assay.diagnose.mechanisms.classes import SAMPLING
from assay.diagnose.mechanisms.findings import Finding
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """Kernels of sampling above their floor; their copies count as copies."""
    return view.above_floor(view.with_operation(SAMPLING), "kernels of sampling")


MECHANISM = Mechanism(
    "sampling",
    "penalties, softmax, sorting and the choice of tokens run as a chain of kernels over the "
    "vocabulary",
    "kernels after the projection to the vocabulary",
    "a fused sampling kernel (FlashInfer), greedy or temperature-only sampling, no log-probabilities",
    find,
)
