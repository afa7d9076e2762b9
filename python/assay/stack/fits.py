"""Relations whose form is ours: approximations that hold inside the range of their data."""

from __future__ import annotations

from assay.model import Expression, Reference, Scope, Variable


def approximate(
    into: Scope, heading: str, equals: Expression, *, valid: Expression, reference: Reference, library: bool = False
) -> Variable:
    """Declare a quantity by a fitted form; answers say where `valid` does not hold."""
    variable = into.declare(heading, reference=reference, library=library)
    name = variable.name.removeprefix(f"{into.name}.")
    into.approximation(
        variable,
        equals,
        name=f"{name}.fit",
        valid=valid,
        reference=reference,
        meaning=variable.meaning,
        library=library,
    )
    return variable
