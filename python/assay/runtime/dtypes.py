"""Element types: the standard's, half precision, and bfloat16, with the rules that join them."""

from __future__ import annotations

from typing import Any, Final

from assay._native import FORMATS
from assay.errors import DTypeError
from assay.lazy_import import np

_FORMAT_NAMES: Final = {
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
}
"""Format names of the dtypes, where they differ from the dtype's name."""


class DType:
    """The data type of an array's elements."""

    __slots__ = ("_storage", "_storage_name", "code", "element", "itemsize", "kind", "name")

    def __init__(
        self, name: str, kind: str, itemsize: int, code: int, storage: str | None = None
    ) -> None:
        """Describe a dtype; `storage` is the NumPy dtype of its bytes, if it is not its own."""
        self.name: Final = name
        self.kind: Final = kind
        self.itemsize: Final = itemsize
        self.code: Final = code
        """DLPack's type code."""
        self.element: Final = FORMATS[_FORMAT_NAMES.get(name, name)]
        """The format code in calls of native operations."""
        self._storage_name: Final = storage or name
        self._storage: np.dtype[Any] | None = None

    @property
    def storage(self) -> np.dtype[Any]:
        """The NumPy dtype that stores the elements."""
        if self._storage is None:
            self._storage = np.dtype(self._storage_name)
        return self._storage

    @property
    def dtype(self) -> np.dtype[Any]:
        """The same, so that `numpy.dtype(x.dtype)` works."""
        return self.storage

    def __repr__(self) -> str:
        return self.name


bool_: Final = DType("bool", "bool", 1, 6)
int8: Final = DType("int8", "int", 1, 0)
int16: Final = DType("int16", "int", 2, 0)
int32: Final = DType("int32", "int", 4, 0)
int64: Final = DType("int64", "int", 8, 0)
uint8: Final = DType("uint8", "uint", 1, 1)
uint16: Final = DType("uint16", "uint", 2, 1)
uint32: Final = DType("uint32", "uint", 4, 1)
uint64: Final = DType("uint64", "uint", 8, 1)
float16: Final = DType("float16", "float", 2, 2)
bfloat16: Final = DType("bfloat16", "float", 2, 4, "uint16")
float32: Final = DType("float32", "float", 4, 2)
float64: Final = DType("float64", "float", 8, 2)
complex64: Final = DType("complex64", "complex", 8, 5)
complex128: Final = DType("complex128", "complex", 16, 5)

STANDARD: Final = (
    bool_,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    float32,
    float64,
    complex64,
    complex128,
)
ALL: Final = (*STANDARD, float16, bfloat16)
BY_NAME: Final = {dtype.name: dtype for dtype in ALL}
_BY_DLPACK: Final = {(dtype.code, 8 * dtype.itemsize): dtype for dtype in ALL}
_SIGNED: Final = {dtype.itemsize: dtype for dtype in (int8, int16, int32, int64)}

KINDS: Final = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": ("complex",),
    "numeric": ("int", "uint", "float", "complex"),
}
"""The array API standard's names for groups of kinds."""

NUMERIC: Final = KINDS["numeric"]
REAL: Final = ("int", "uint", "float")
INTEGRAL: Final = KINDS["integral"]
FLOATING: Final = ("float", "complex")
ANY: Final = ("bool", *NUMERIC)

_SCALAR_KINDS: Final[dict[type, tuple[str, ...]]] = {
    bool: ("bool",),
    int: NUMERIC,
    float: FLOATING,
    complex: ("complex",),
}


def as_dtype(value: object, operation: str) -> DType:
    """The dtype of a dtype, a name or a NumPy dtype."""
    if isinstance(value, DType):
        return value
    name = value if isinstance(value, str) else None
    if name is None:
        try:
            name = np.dtype(value).name  # type: ignore[call-overload]
        except TypeError:
            name = repr(value)
    if name not in BY_NAME:
        raise DTypeError(
            f"{operation}: expected an element type, got {name}", f"one of: {', '.join(BY_NAME)}"
        )
    return BY_NAME[name]


def from_dlpack_code(code: int, bits: int) -> DType:
    """The dtype of a DLPack tensor."""
    found = _BY_DLPACK.get((code, bits))
    if found is None:
        raise DTypeError(
            f"from_dlpack: expected a supported element type, got code {code} of {bits} bits"
        )
    return found


def promote(first: DType, second: DType, operation: str) -> DType:
    """Dtype promotion by the rules of the array API standard."""
    if first is second:
        return first
    kinds = {first.kind, second.kind}
    if kinds <= {"int", "uint"}:
        promoted = _promote_integers(first, second)
    elif kinds == {"float"}:
        same_size = first.itemsize == second.itemsize
        promoted = float32 if same_size else max(first, second, key=lambda one: one.itemsize)
    elif kinds <= {"float", "complex"}:
        promoted = complex128 if {first, second} & {float64, complex128} else complex64
    else:
        promoted = None
    if promoted is None:
        raise DTypeError(
            f"{operation}: expected types that promote, got {first} and {second}",
            "convert one of them with astype",
        )
    return promoted


def _promote_integers(first: DType, second: DType) -> DType | None:
    if first.kind == second.kind:
        return max(first, second, key=lambda one: one.itemsize)
    signed, unsigned = (first, second) if first.kind == "int" else (second, first)
    if signed.itemsize > unsigned.itemsize:
        return signed
    return _SIGNED.get(2 * unsigned.itemsize)


def scalar_dtype(value: complex, other: DType, operation: str) -> DType:
    """The promoted dtype of an array's dtype and a Python scalar."""
    kinds = next(kinds for kind, kinds in _SCALAR_KINDS.items() if isinstance(value, kind))
    if other.kind in kinds:
        return other
    if isinstance(value, complex) and other.kind == "float":
        return promote(other, complex64, operation)
    raise DTypeError(
        f"{operation}: expected a scalar that fits {other}, got {type(value).__name__} {value!r}",
        "convert the array with astype",
    )


def default_for(kind: str) -> DType:
    """The default dtype of a kind."""
    return {"bool": bool_, "int": int64, "uint": uint64, "float": float64}.get(kind, complex128)


def require_kind(dtype: DType, kinds: tuple[str, ...], operation: str) -> None:
    """Raise for a dtype that an operation does not support."""
    if dtype.kind not in kinds:
        raise DTypeError(
            f"{operation}: expected elements of kind {' or '.join(kinds)}, got {dtype}"
        )
