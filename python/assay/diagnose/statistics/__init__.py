"""What samples can say about causes: lagged dependence, doubly robust effects, refuters."""

from assay.diagnose.statistics.aipw import binary_effect
from assay.diagnose.statistics.claim import CausalClaim, make_claim
from assay.diagnose.statistics.dose import dose_effect
from assay.diagnose.statistics.effect import Effect, NotIdentifiedError, Overlap
from assay.diagnose.statistics.lagged import Dependence, Screen, lagged_screen
from assay.diagnose.statistics.refuters import Refutation, refute

__all__ = [
    "CausalClaim",
    "Dependence",
    "Effect",
    "NotIdentifiedError",
    "Overlap",
    "Refutation",
    "Screen",
    "binary_effect",
    "dose_effect",
    "lagged_screen",
    "make_claim",
    "refute",
]
