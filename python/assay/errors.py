"""The exceptions that Assay raises: one base class, one line, a hint, an exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TypeVar

Word = TypeVar("Word", bound=str)


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
        if hint:
            # Tracebacks and notebooks print it below the message.
            self.add_note(f"hint: {hint}")


class UnitError(AssayError):
    """A unit is unknown, malformed, or not the one that was expected."""


class DeclarationError(AssayError):
    """A variable, relation or scope is declared wrongly."""


class UnknownNameError(AssayError):
    """A name that is not in the registry."""


class InputError(AssayError):
    """A given value cannot be used: malformed, not finite, out of bounds or contradictory."""


class ContradictionError(InputError):
    """Given values contradict each other, so there is no answer."""


class CheckFailedError(AssayError):
    """The result exists, but a requested check failed."""

    exit_code = 1


class NoDataError(AssayError):
    """Nothing was measured."""

    exit_code = 3


class EvaluationError(AssayError):
    """A relation has no finite value at the given point."""


class CycleError(AssayError):
    """A variable is defined through itself outside a simultaneous block."""


class AmbiguityError(AssayError):
    """Several relations define a variable and none was chosen."""


class ConvergenceError(AssayError):
    """An iteration or a solver did not reach its tolerance."""


class UnsupportedError(AssayError):
    """A relation does not support the requested operation."""


class UnderdeterminedError(AssayError):
    """Fewer equations than unknowns: some unknowns can take any value."""


class OverdeterminedError(AssayError):
    """More equations than unknowns: the requirements contradict each other."""


class InfeasibleError(AssayError):
    """No choice fulfills every constraint."""


class ModelError(AssayError):
    """A language model produced unusable output, such as NaN logits."""


class DeviceError(AssayError):
    """A device, its memory or a stream failed; `code` is a stable name of the failure."""

    code = "device"


class OutOfMemoryError(DeviceError, MemoryError):
    """The requested memory exceeds what is free, or the caller's quota."""


class FreedError(DeviceError):
    """Use after free of a buffer, stream, event or graph."""


class PanicError(DeviceError, RuntimeError):
    """Native code panicked: a bug in Assay."""


class CompileError(DeviceError):
    """A kernel does not compile; the message shows the source line and a caret."""


class ShapeError(AssayError, ValueError):
    """Shapes, axes or strides of arrays do not fit the operation."""


class DTypeError(AssayError, TypeError):
    """An operation does not support, or cannot promote, these dtypes."""


class IndexingError(AssayError, IndexError):
    """An index is out of bounds or of a kind that arrays do not take."""


class AxisError(ShapeError, IndexingError):
    """An axis that the array does not have."""


class ArrayBufferError(AssayError, BufferError):
    """Memory cannot be shared through the requested buffer protocol."""


class MissingInputsError(AssayError):
    """The target depends on inputs that have no value."""

    exit_code = 3

    def __init__(self, message: str, names: Iterable[str], hint: str | None = None) -> None:
        """Store the message and the names of the inputs without a value."""
        super().__init__(message, hint)
        self.names = tuple(names)


_NEAR = 0.65
"""Least similarity of what a hint suggests: "narnia" and "california" have 0.63."""
_MAX_LISTED = 12
"""The longest list of candidates that a hint prints."""


def unknown_name(
    kind: str, name: str, known: Iterable[str], listing: str | None = None
) -> UnknownNameError:
    """Build the error for an unknown name, with the closest candidates as a hint.

    `listing` says where all are listed, for names that resemble none of too many.

    >>> str(unknown_name("variable", "gpu.pwer", ["gpu.power", "econ.price"]))
    'unknown variable "gpu.pwer"'
    """
    candidates = list(known)
    near = _close(name, candidates)
    if near:
        best = _similarity(name, near[0])
        near = [candidate for candidate in near if _similarity(name, candidate) > best - 0.05]
    _, dot, tail = name.rpartition(".")
    same = [candidate for candidate in candidates if candidate.endswith("." + tail)]
    if not near:
        near = same[:3]
    elif dot and len(same) == 1 and same[0] not in near:
        # The very word, in another scope: as likely as a word that resembles it.
        near = [same[0], *near]
    hint = f"did you mean {' or '.join(near)}?" if near else listing
    if not near and 0 < len(candidates) <= _MAX_LISTED:
        hint = f"one of: {', '.join(candidates)}"
    return UnknownNameError(f'unknown {kind} "{name}"', hint)


def _close(name: str, candidates: Sequence[str]) -> list[str]:
    """The candidates that resemble a name, the nearest first; dashes of options resemble nothing.

    >>> _close("--bogus", ["--verbose", "--targets"]), _close("--jsn", ["--json"])
    ([], ['--json'])
    """
    bare = {candidate.lstrip("-"): candidate for candidate in candidates}
    near = difflib.get_close_matches(name.lstrip("-"), bare, n=3, cutoff=_NEAR)
    return [bare[each] for each in near]


def one_of(what: str, text: str, known: Sequence[Word]) -> Word:
    """Match one of the known words, or raise the error that lists them."""
    for word in known:
        if word == text:
            return word
    error = unknown_name(what, text, known)
    error.hint = error.hint or f"one of: {', '.join(known)}"
    raise error


def _similarity(name: str, candidate: str) -> float:
    return difflib.SequenceMatcher(None, name, candidate).ratio()
