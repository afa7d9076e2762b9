"""Functions of the user's files as programs."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from assay.bench.own.endings import refuse_endings
from assay.bench.own.values import OwnData, arguments, copied, named_arrays
from assay.errors import InputError, unknown_name
from assay.workloads.contract import Arrays, DataSet, Program

Function = Callable[..., Any]

_FAILURES: Final = (Exception, SystemExit)
"""What the user's code may end with: `sys.exit(0)` must not end a gate that judged nothing as passed."""


def function_named(text: str, folder: Path, role: str = "program") -> Function:
    """The function FILE.py:NAME of a file in the folder of a claim; each role imports the file anew.

    What a generator keeps in its module, outputs that it could compute before the clock starts,
    the functions that are measured do not see.
    """
    file, _, name = text.rpartition(":")
    module = _module(folder / file, role)
    # A module may have a function of its own for names that it lacks.
    found = called(text, getattr, module, name, None)
    if inspect.iscoroutinefunction(found):
        raise InputError(
            f"{text}: expected a function that returns what it computed, got an async one",
            "a function that calls asyncio.run waits for it",
        )
    if callable(found):
        function: Function = found
        return function
    offered = [known for known, value in vars(module).items() if callable(value)]
    raise unknown_name(f"function of {folder / file}", name, offered)


def _module(path: Path, role: str) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise InputError(f"{path}: expected a Python file, got none")
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    name = f"assay_claim_{digest}_{role}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Files beside it can be imported, as from a program that Python was given.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    sys.modules[name] = module
    refuse_endings()
    try:
        spec.loader.exec_module(module)
    except _FAILURES as error:
        del sys.modules[name]
        raise InputError(f"{path}: cannot be imported: {_line(error)}") from error
    return module


def called(text: str, function: Function, *positional: Any, **named: Any) -> Any:
    """What a function returns; whatever it raises is one line that names it."""
    try:
        return function(*positional, **named)
    except _FAILURES as error:
        raise raised(text, error) from error


def raised(text: str, error: BaseException) -> InputError:
    """An error of the user's code, in one line."""
    return InputError(f"{text} raised {_line(error)}")


def _kind(value: Any) -> str:
    """What an argument is, for whom it surprises."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"an array of {' x '.join(map(str, shape)) or 'no axes'}"
    size = f" of {len(value):,}" if hasattr(value, "__len__") else ""
    return f"a {type(value).__name__}{size}"


def _line(error: BaseException) -> str:
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0]}" if first else type(error).__name__


class FunctionProgram(Program):
    """One call for each of the inputs, which are copied before: a call may change them."""

    def __init__(self, text: str, folder: Path) -> None:
        """Import the file."""
        self.text = text
        self.function = function_named(text, folder)
        self._calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._returned: list[Any] | None = None
        self._outputs: Arrays = {}

    def load(self, data: DataSet) -> None:
        """Copy inputs; what was returned is read first, so that nobody fills it in later."""
        assert isinstance(data, OwnData)
        self._keep()
        self._calls = [arguments(called(self.text, copied, value)) for value in data.values]

    def run(self) -> Mapping[str, float]:
        """Call the function."""
        function = self.function
        try:
            self._returned = [function(*positional, **named) for positional, named in self._calls]
        except _FAILURES as error:
            wrong = raised(self.text, error)
            positional, named = self._calls[0]
            given = ", ".join([*map(_kind, positional), *(f"{name}=" for name in named)])
            raise InputError(wrong.message, f"it was called with ({given})") from error
        return {}

    def outputs(self) -> Arrays:
        """What it returned, by call."""
        self._keep()
        return self._outputs

    def poison(self) -> None:
        """Forget what it returned."""
        self._returned, self._outputs = None, {}

    def _keep(self) -> None:
        if self._returned is None:
            return
        self._outputs = {
            f"{place}/{name}": array.copy()
            for place, value in enumerate(self._returned)
            for name, array in named_arrays(self.text, value).items()
        }
        self._returned = None
