"""What a user should know of a model that was loaded, and of where it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from assay.engine.core.encoder import Encoder
    from assay.engine.core.engine import Engine


class DefaultDevice(NamedTuple):
    """Where models compute if nobody names a device, and what the user should know of it."""

    name: str
    note: str


def default_device() -> DefaultDevice:
    """The first GPU, which a note says, else the CPU."""
    from assay.runtime import cuda

    if names := cuda.names():
        return DefaultDevice(names[0], f"computing on {names[0]}; --device cpu computes on the CPU")
    return DefaultDevice("cpu", "")


def model_notes(engine: Engine | Encoder) -> list[str]:
    """Notes about synthetic weights and substituted formats."""
    notes = list(engine.model.notes)
    if engine.files.synthetic:
        notes.insert(0, f'the model "{engine.files.name}" is synthetic: its weights are random')
    return notes
