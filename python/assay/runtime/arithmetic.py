"""The operators of arrays, each an operation by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class Arithmetic:
    """What `+`, `@`, `<` and the others do; every one is a recorded operation."""

    __slots__ = ()

    if TYPE_CHECKING:
        # Arrays say what these do; operations make arrays, so they cannot be known here.
        def _unary(self, name: str) -> Any: ...
        @staticmethod
        def _binary(name: str, first: Any, second: Any) -> Any: ...
        def _in_place(self, name: str, other: Any) -> Any: ...
        def _matmul(self, first: Any, second: Any) -> Any: ...
        def _matmul_in_place(self, other: Any) -> Any: ...

    def __add__(self, other: Any, /) -> Any:
        return self._binary("add", self, other)

    def __radd__(self, other: Any, /) -> Any:
        return self._binary("add", other, self)

    def __iadd__(self, other: Any, /) -> Any:
        return self._in_place("add", other)

    def __sub__(self, other: Any, /) -> Any:
        return self._binary("subtract", self, other)

    def __rsub__(self, other: Any, /) -> Any:
        return self._binary("subtract", other, self)

    def __isub__(self, other: Any, /) -> Any:
        return self._in_place("subtract", other)

    def __mul__(self, other: Any, /) -> Any:
        return self._binary("multiply", self, other)

    def __rmul__(self, other: Any, /) -> Any:
        return self._binary("multiply", other, self)

    def __imul__(self, other: Any, /) -> Any:
        return self._in_place("multiply", other)

    def __truediv__(self, other: Any, /) -> Any:
        return self._binary("divide", self, other)

    def __rtruediv__(self, other: Any, /) -> Any:
        return self._binary("divide", other, self)

    def __itruediv__(self, other: Any, /) -> Any:
        return self._in_place("divide", other)

    def __floordiv__(self, other: Any, /) -> Any:
        return self._binary("floor_divide", self, other)

    def __rfloordiv__(self, other: Any, /) -> Any:
        return self._binary("floor_divide", other, self)

    def __ifloordiv__(self, other: Any, /) -> Any:
        return self._in_place("floor_divide", other)

    def __mod__(self, other: Any, /) -> Any:
        return self._binary("remainder", self, other)

    def __rmod__(self, other: Any, /) -> Any:
        return self._binary("remainder", other, self)

    def __imod__(self, other: Any, /) -> Any:
        return self._in_place("remainder", other)

    def __pow__(self, other: Any, /) -> Any:
        return self._binary("pow", self, other)

    def __rpow__(self, other: Any, /) -> Any:
        return self._binary("pow", other, self)

    def __ipow__(self, other: Any, /) -> Any:
        return self._in_place("pow", other)

    def __and__(self, other: Any, /) -> Any:
        return self._binary("bitwise_and", self, other)

    def __rand__(self, other: Any, /) -> Any:
        return self._binary("bitwise_and", other, self)

    def __iand__(self, other: Any, /) -> Any:
        return self._in_place("bitwise_and", other)

    def __or__(self, other: Any, /) -> Any:
        return self._binary("bitwise_or", self, other)

    def __ror__(self, other: Any, /) -> Any:
        return self._binary("bitwise_or", other, self)

    def __ior__(self, other: Any, /) -> Any:
        return self._in_place("bitwise_or", other)

    def __xor__(self, other: Any, /) -> Any:
        return self._binary("bitwise_xor", self, other)

    def __rxor__(self, other: Any, /) -> Any:
        return self._binary("bitwise_xor", other, self)

    def __ixor__(self, other: Any, /) -> Any:
        return self._in_place("bitwise_xor", other)

    def __lshift__(self, other: Any, /) -> Any:
        return self._binary("bitwise_left_shift", self, other)

    def __rlshift__(self, other: Any, /) -> Any:
        return self._binary("bitwise_left_shift", other, self)

    def __ilshift__(self, other: Any, /) -> Any:
        return self._in_place("bitwise_left_shift", other)

    def __rshift__(self, other: Any, /) -> Any:
        return self._binary("bitwise_right_shift", self, other)

    def __rrshift__(self, other: Any, /) -> Any:
        return self._binary("bitwise_right_shift", other, self)

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

    def __neg__(self) -> Any:
        return self._unary("negative")

    def __pos__(self) -> Any:
        return self._unary("positive")

    def __abs__(self) -> Any:
        return self._unary("abs")

    def __invert__(self) -> Any:
        return self._unary("bitwise_invert")
