"""Declarations of fitted constants and free problem sizes of kernels."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, Variable, by_definition, fitted

Bounds = tuple[float | str | None, float | str | None]

SHARE: Bounds = (0, 1)
EFFICIENCY: Bounds = ("positive", 1)

FITTED = fitted("docs/design/kernel-model.md", "measured kernels")
"""The fits of all kernels: data, method, and errors on held-out shapes."""

_SHAPE = by_definition("shape of the operation")


def constant(scope: Scope, heading: str, bounds: Bounds = POSITIVE) -> Variable:
    """Declare a constant that is fitted per accelerator."""
    return scope.declare(heading, bounds=bounds, reference=FITTED, boundary="needs-source")


def flag(scope: Scope, heading: str) -> Variable:
    """Declare which of two kernels an accelerator has."""
    return scope.flag(heading, reference=FITTED, boundary="needs-source")


def free(scope: Scope, heading: str, bounds: Bounds = POSITIVE) -> Variable:
    """Declare one dimension of a standalone operation."""
    return scope.declare(heading, bounds=bounds, reference=_SHAPE, boundary="scenario", library=True)


def spread(scope: Scope, name: str = "spread", what: str = "") -> Variable:
    """Declare the spread of measured over predicted times of a kind of kernel."""
    heading = f"{name}, sigma: logarithmic spread of measured over predicted {what}".strip()
    return scope.declare(heading, reference=FITTED, boundary="needs-source", library=True)
