"""Modules that are imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Later:
    """Stands for a module in the globals of another one, and makes way for it at its first use.

    NumPy takes longer to import than a short answer takes to make; where an answer needs none of
    it, it is left out. After the first use the name is the module itself, at no further cost.
    """

    def __init__(self, module: str, owner: dict[str, Any], name: str) -> None:
        """Take the place of a module in a module's globals, under the name it has there."""
        self._place = (module, owner, name)

    def __getattr__(self, attribute: str) -> Any:
        module, owner, name = self._place
        owner[name] = import_module(module)
        return getattr(owner[name], attribute)
