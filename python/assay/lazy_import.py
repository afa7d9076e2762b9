"""Lazy imports: a module-level name that imports its module on first use.

The packages that many modules use have such a name here: `from assay.lazy_import import np, pl`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

EXTRAS: Final = {"polars": "loop", "pyarrow": "export", "yaml": "loop"}
"""Packages that an extra installs, and the extra."""


class LazyModule:
    """A placeholder that becomes the real module on first use.

    Importing NumPy takes longer than answering a short question; an answer that does not need it
    does not import it. After the first attribute access the placeholder has what the module has,
    and a global that it stands in for is bound to the module itself, so that later accesses cost
    nothing extra.
    """

    def __init__(
        self, module: str, module_globals: dict[str, Any] | None = None, name: str = ""
    ) -> None:
        """Stand in for `module`, and under `name` in the given module globals."""
        self._target = (module, {} if module_globals is None else module_globals, name)

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
        vars(self).update(vars(module_globals[name]))
        return getattr(module_globals[name], attribute)


if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from scipy import special, stats
else:
    np, pl = LazyModule("numpy"), LazyModule("polars")
    special, stats = LazyModule("scipy.special"), LazyModule("scipy.stats")

__all__ = ["LazyModule", "np", "pl", "special", "stats"]
