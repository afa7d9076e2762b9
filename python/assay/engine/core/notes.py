"""What a user should know of a model that was loaded, and of where it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.engine.core.encoder import Encoder
    from assay.engine.core.engine import Engine


def idle_gpu_note() -> str:
    """That a GPU is idle while the CPU computes, as nobody named a device; empty without one."""
    from assay.runtime import cuda

    names = cuda.names()
    return f"computing on cpu; --device {names[0]} computes on the GPU" if names else ""


def model_notes(engine: Engine | Encoder) -> list[str]:
    """Notes about synthetic weights and substituted formats."""
    notes = list(engine.model.notes)
    if engine.files.synthetic:
        notes.insert(0, f'the model "{engine.files.name}" is synthetic: its weights are random')
    return notes
