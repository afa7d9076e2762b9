"""Ray, where it is installed: the extra `fleet`."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final

from assay.errors import InputError

INSTALL: Final = "pip install 'assay[fleet]'"


def ray_module(name: str = "ray") -> Any:
    """A module of Ray, which sends nothing about its use to anybody."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray 2 warns about a default of later releases on every start.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        return import_module(name)
    except ImportError as error:
        missing = getattr(error, "name", None) or "ray"
        raise InputError(
            f"a cluster: expected the package ray[default], got no module {missing}", INSTALL
        ) from None
