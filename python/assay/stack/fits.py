"""Relations whose form is ours: approximations that hold inside the range of their data."""

from __future__ import annotations

from assay.model import Expression, Reference, Scope, Variable


def approximate(
    into: Scope, name: str, symbol: str, unit: str, meaning: str, equals: Expression, *,
    valid: Expression, reference: Reference, display: str | None = None, library: bool = False,
) -> Variable:  # fmt: skip
    """Declare a quantity by a fitted form; answers say where `valid` does not hold."""
    variable = into.variable(
        name, symbol, unit, meaning, display=display, reference=reference, library=library
    )
    into.approximation(
        variable, equals, name=f"{name}.fit", valid=valid, reference=reference, meaning=meaning,
        library=library,
    )  # fmt: skip
    return variable
