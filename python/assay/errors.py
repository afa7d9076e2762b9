"""The one family of errors that a user of Assay can meet."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AssayError(Exception):
    """An error that names the thing, what was expected and what was got.

    `hint`, where there is one, says what to do about it. The command line prints both, one
    line each, and exits with `exit_code`.
    """

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        """Store the one-line message and the hint."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class UnitError(AssayError):
    """A unit is unknown, malformed, or not the one that was expected."""


class DeclarationError(AssayError):
    """A variable, relation or scope is declared wrongly."""


class UnknownNameError(AssayError):
    """A name that nothing in the registry carries."""


class InputError(AssayError):
    """A given value cannot be used: malformed, not finite, out of bounds or contradictory."""


class EvaluationError(AssayError):
    """A relation has no finite value at the given point."""


class CycleError(AssayError):
    """A variable is defined through itself outside a simultaneous block."""


class AmbiguityError(AssayError):
    """Several relations define a variable and none was chosen."""


class ConvergenceError(AssayError):
    """An iteration or a solver did not reach its tolerance."""


class UnsupportedError(AssayError):
    """A relation cannot take part in what was asked, and is refused by name."""


class UnderdeterminedError(AssayError):
    """Fewer equations than unknowns: some unknowns can take any value."""


class OverdeterminedError(AssayError):
    """More equations than unknowns: some requirements leave no room for others."""


class InfeasibleError(AssayError):
    """No choice fulfills every constraint."""


class ModelError(AssayError):
    """A model computed something that no answer can be made of."""


class DeviceError(AssayError):
    """A device, its memory or its queues refused or failed; `code` is a stable name for how."""

    code = "device"


class OutOfMemoryError(DeviceError, MemoryError):
    """The memory asked for is not there, or not for this caller."""


class FreedError(DeviceError):
    """Something that was freed was used."""


class PanicError(DeviceError, RuntimeError):
    """Native code panicked; the fault is Assay's own."""


class CompileError(DeviceError):
    """Source of a kernel does not compile; the message shows the line and a caret."""


class ShapeError(AssayError, ValueError):
    """Shapes, axes or strides of arrays do not fit the operation."""


class DTypeError(AssayError, TypeError):
    """An operation does not take, or cannot join, arrays of these types."""


class IndexingError(AssayError, IndexError):
    """An index is out of bounds or of a kind that arrays do not take."""


class AxisError(ShapeError, IndexingError):
    """An axis that the array does not have."""


class ArrayBufferError(AssayError, BufferError):
    """Memory cannot be shared the way it was asked for."""


class MissingInputsError(AssayError):
    """Inputs without a value stand between the question and its answer."""

    exit_code = 3

    def __init__(self, message: str, names: Iterable[str], hint: str | None = None) -> None:
        """Store the names that lack a value besides the message."""
        super().__init__(message, hint)
        self.names = tuple(names)


_FEW = 12
"""Names that still fit into a hint."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Build the error for a name that is not known, suggesting the nearest ones, or all of few.

    >>> str(unknown_name("variable", "gpu.pwer", ["gpu.power", "econ.price"]))
    'unknown variable "gpu.pwer"'
    """
    candidates = list(known)
    near = difflib.get_close_matches(name, candidates, n=3, cutoff=0.6)
    if near:
        best = _likeness(name, near[0])
        near = [candidate for candidate in near if _likeness(name, candidate) > best - 0.05]
    if not near:
        tail = name.rsplit(".", 1)[-1]
        near = [candidate for candidate in candidates if candidate.endswith("." + tail)][:3]
    hint = f"did you mean {' or '.join(near)}?" if near else None
    if not near and 0 < len(candidates) <= _FEW:
        hint = f"one of: {', '.join(candidates)}"
    return UnknownNameError(f'unknown {kind} "{name}"', hint)


def _likeness(name: str, candidate: str) -> float:
    return difflib.SequenceMatcher(None, name, candidate).ratio()
