"""The operators of arrays that change one, compare or multiply matrices; the others are native."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class Arithmetic:
    """What `+=`, `@`, `<` and others do; every one is a recorded operation by its name."""

    __slots__ = ()

    if TYPE_CHECKING:
        # Arrays say what these do; operations make arrays, so they cannot be known here.
        @staticmethod
        def _binary(name: str, first: Any, second: Any) -> Any: ...
        def _in_place(self, name: str, other: Any) -> Any: ...
        def _matmul(self, first: Any, second: Any) -> Any: ...
        def _matmul_in_place(self, other: Any) -> Any: ...

    def __iadd__(self, other: Any, /) -> Any:
        return self._in_place("add", other)

    def __isub__(self, other: Any, /) -> Any:
        return self._in_place("subtract", other)

    def __imul__(self, other: Any, /) -> Any:
        return self._in_place("multiply", other)

    def __itruediv__(self, other: Any, /) -> Any:
        return self._in_place("divide", other)

    def __ifloordiv__(self, other: Any, /) -> Any:
        return self._in_place("floor_divide", other)

    def __imod__(self, other: Any, /) -> Any:
        return self._in_place("remainder", other)

    def __pow__(self, other: Any, /) -> Any:
        return self._binary("pow", self, other)

    def __rpow__(self, other: Any, /) -> Any:
        return self._binary("pow", other, self)

    def __ipow__(self, other: Any, /) -> Any:
        return self._in_place("pow", other)

    def __iand__(self, other: Any, /) -> Any:
        return self._in_place("bitwise_and", other)

    def __ior__(self, other: Any, /) -> Any:
        return self._in_place("bitwise_or", other)

    def __ixor__(self, other: Any, /) -> Any:
        return self._in_place("bitwise_xor", other)

    def __ilshift__(self, other: Any, /) -> Any:
        return self._in_place("bitwise_left_shift", other)

    def __irshift__(self, other: Any, /) -> Any:
        return self._in_place("bitwise_right_shift", other)

    def __matmul__(self, other: Any, /) -> Any:
        return self._matmul(self, other)

    def __rmatmul__(self, other: Any, /) -> Any:
        return self._matmul(other, self)

    def __imatmul__(self, other: Any, /) -> Any:
        return self._matmul_in_place(other)

    def __eq__(self, other: Any, /) -> Any:
        return self._binary("equal", self, other)

    def __ne__(self, other: Any, /) -> Any:
        return self._binary("not_equal", self, other)

    def __lt__(self, other: Any, /) -> Any:
        return self._binary("less", self, other)

    def __le__(self, other: Any, /) -> Any:
        return self._binary("less_equal", self, other)

    def __gt__(self, other: Any, /) -> Any:
        return self._binary("greater", self, other)

    def __ge__(self, other: Any, /) -> Any:
        return self._binary("greater_equal", self, other)
