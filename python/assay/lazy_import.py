"""Lazy imports: a module-level name that imports its module on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

EXTRAS: Final = {"polars": "loop", "pyarrow": "export", "yaml": "loop"}
"""Packages that an extra installs, and the extra."""


class LazyModule:
    """A placeholder in a module's globals that replaces itself with the real module on first use.

    Importing NumPy takes longer than answering a short question; an answer that does not need it
    does not import it. After the first attribute access the global is bound to the module itself,
    so later accesses cost nothing extra.
    """

    def __init__(self, module: str, module_globals: dict[str, Any], name: str) -> None:
        """Stand in for `module` under `name` in the given module globals."""
        self._target = (module, module_globals, name)

    def __getattr__(self, attribute: str) -> Any:
        module, module_globals, name = self._target
        try:
            module_globals[name] = import_module(module)
        except ModuleNotFoundError as error:
            package = module.partition(".")[0]
            if error.name != package or package not in EXTRAS:
                raise
            from assay.errors import InputError

            raise InputError(
                f"{package} is needed and not installed",
                f"install it with: pip install 'assay[{EXTRAS[package]}]'",
            ) from None
        return getattr(module_globals[name], attribute)
