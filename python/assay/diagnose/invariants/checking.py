"""`assay.check_invariants`: what must hold of a healthy trace, and what does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assay.diagnose.invariants.clocks_and_power import CLOCKS_AND_POWER
from assay.diagnose.invariants.concurrency import CONCURRENCY
from assay.diagnose.invariants.kernel_time import KERNEL_TIME
from assay.diagnose.invariants.memory_traffic import MEMORY_TRAFFIC
from assay.diagnose.invariants.step_time import STEP_TIME
from assay.diagnose.residuals import Residuals
from assay.diagnose.violation import VERDICTS, Invariant, Violation
from assay.errors import InputError

DEFAULT: Final = (STEP_TIME, KERNEL_TIME, MEMORY_TRAFFIC, CONCURRENCY, CLOCKS_AND_POWER)
"""The invariants that are checked unless told otherwise; add your own to it."""


def check_invariants(
    residuals: Residuals, invariants: Sequence[Invariant] = DEFAULT
) -> list[Violation]:
    """What is violated or could not be measured, in the order of the invariants.

    An invariant of your own is a name, a statement and a function from residuals to violations:

    >>> from assay.diagnose.violation import Invariant, Violation
    >>> from assay.diagnose.invariants.checking import DEFAULT
    >>> def no_unknown(residuals):
    ...     unknown = residuals.waterfall.terms[-1]
    ...     if unknown.ns == 0:
    ...         return []
    ...     return [Violation("no unknown", "violated", "step", unknown.ns, 0, 0, "ns")]
    >>> mine = (*DEFAULT, Invariant("no unknown", "every nanosecond is explained", no_unknown))
    """
    violations: list[Violation] = []
    for invariant in invariants:
        if not isinstance(invariant, Invariant):
            raise InputError(
                f"check_invariants: expected an Invariant, got {type(invariant).__name__}",
                "assay.diagnose.violation.Invariant(name, statement, check)",
            )
        for violation in invariant.check(residuals):
            if not isinstance(violation, Violation) or violation.verdict not in VERDICTS:
                raise InputError(
                    f'invariant "{invariant.name}": expected violations with a verdict of '
                    f"{' or '.join(VERDICTS)}, got {str(violation)[:80]}"
                )
            violations.append(violation)
    return violations
