"""What the extension module shows to Python; stubtest holds it against the built module."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypedDict, final, type_check_only

from typing_extensions import Buffer

__all__ = ["TAPE_OPS", "Tape", "TapeBlock", "TapeError", "TapeReport", "build_info"]

@type_check_only
class BuildInfo(TypedDict):
    version: str
    arch: str
    os: str
    debug_assertions: bool

def build_info() -> BuildInfo: ...

TAPE_OPS: Final[dict[str, int]]
"""Code of each tape operation by name: the table's one home is the Rust core."""

class TapeError(ValueError):
    """A tape's program, stored bytes or arguments are wrong."""

@final
class TapeBlock:
    """Simultaneous relations x = g(x, p) inside a tape, solved at each point.

    The inner program's inputs are the unknowns, one per entry of `start`, then the externals;
    its outputs are the updated unknowns, then any further members. `start` and `externals` are
    value numbers of the outer tape. There, `block` (a = number of the block) solves it, and
    `extract` (a = value number of that instruction, b = member) reads a result. A point that
    does not converge gives NaN for all members. Each unknown is found to within the absolute
    tolerance plus its share by the relative one: a solution at zero needs an absolute one.
    """

    def __new__(
        cls,
        *,
        constants: Sequence[float],
        code: bytes,
        outputs: Sequence[int],
        start: Sequence[int],
        externals: Sequence[int],
        lower: Sequence[float] | None = None,
        upper: Sequence[float] | None = None,
        method: Literal["newton", "fixed_point"] = "newton",
        damping: float = 1.0,
        relative_tolerance: float = 1e-12,
        absolute_tolerance: float = 0.0,
        max_iterations: int = 100,
    ) -> TapeBlock: ...

@final
class TapeReport:
    """What happened during an evaluation."""

    @property
    def points(self) -> int:
        """Points evaluated."""
    @property
    def unconverged(self) -> dict[int, int]:
        """Points that did not converge, by block number; blocks without any are absent."""

@final
class Tape:
    """A checked program over 64-bit floats, run over many points at once.

    Values are numbered: inputs, then constants, then one value per instruction. `code` is packed
    little-endian 32-bit quadruples (operation, a, b, c), where a, b and c are numbers of earlier
    values. Exceptions: `powi` has its exponent's bits in b, `select` is a if c else b, and
    `block` and `extract` are as in `TapeBlock`. Fields that an operation does not use are ignored.
    """

    def __new__(
        cls,
        n_inputs: int,
        constants: Sequence[float],
        code: bytes,
        outputs: Sequence[int],
        blocks: Sequence[TapeBlock] = ...,
    ) -> Tape: ...
    @property
    def n_inputs(self) -> int:
        """Number of inputs."""
    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
    @property
    def n_instructions(self) -> int:
        """Number of instructions."""
    def evaluate(
        self,
        inputs: Iterable[float | Buffer],
        points: int,
        out: Buffer | Sequence[Buffer],
    ) -> TapeReport:
        """Compute every output at every point into `out`.

        Each input is a number, the same at every point, or a C-contiguous float64 buffer of
        `points` elements. `out` is a writable buffer of shape (outputs, points), or a list of
        one buffer per output; it may not overlap the inputs. Other threads run meanwhile and
        must not write to the buffers.
        """
    def jacobian(
        self,
        inputs: Iterable[float | Buffer],
        points: int,
        wrt: Sequence[int],
        out: Buffer,
        values: Buffer | Sequence[Buffer] | None = None,
    ) -> TapeReport:
        """Compute the derivatives of every output by the inputs `wrt` at every point.

        `out` is a writable float64 buffer of shape (outputs, len(wrt), points), or
        (outputs, len(wrt)) for one point. The outputs themselves go to `values`, if given, as in
        `evaluate`. Branches not taken and paths with slope zero contribute nothing, whatever
        their values; at a kink the slope is that of the first argument, or 0.
        """
    def jvp(
        self,
        inputs: Iterable[float | Buffer],
        points: int,
        tangents: Iterable[float | Buffer],
        out: Buffer | Sequence[Buffer],
    ) -> TapeReport:
        """Compute the change of every output along `tangents`, one per input, into `out`."""
    def vjp(
        self,
        inputs: Iterable[float | Buffer],
        points: int,
        cotangents: Iterable[float | Buffer],
        out: Buffer | Sequence[Buffer],
    ) -> TapeReport:
        """Compute the derivative of the outputs weighted by `cotangents`, one per output.

        `out` has one row per input.
        """
    def to_bytes(self) -> bytes:
        """The tape in the stored format."""
    @staticmethod
    def from_bytes(data: bytes) -> Tape:
        """Read a tape that `to_bytes` wrote."""
