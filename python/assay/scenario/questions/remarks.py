"""What a reader must know beside a value: conflicts, validity of approximations, switches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.model.resolving.resolution import ConditionVerdict, Resolution


def remarks(resolution: Resolution) -> Iterator[str]:
    """Notes on a value, those that matter most first: conflicts, validity, switches."""
    for conflict in resolution.conflicts:
        yield conflict.text
    # Without a value, the missing inputs say why; what they would decide besides is no news.
    if resolution.value is not None:
        yield from validity_remarks(resolution.validity)
    for switch in resolution.switches:
        yield f"{switch.variable} uses {switch.used}: {switch.left} needs {switch.condition}"
    yield from resolution.losses


def validity_remarks(validity: Sequence[ConditionVerdict]) -> Iterator[str]:
    """One line for each approximation that does not hold, or may not."""
    for verdict in validity:
        if verdict.status == "false":
            yield f"{verdict.name} is used where it is not valid: it needs {verdict.text}"
        elif verdict.status == "unknown":
            yield f"whether {verdict.name} is valid here is unknown: it needs {verdict.text}"
