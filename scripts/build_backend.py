"""The build backend of the package: maturin, and what a wheel has besides: library and documents."""

import os
import shlex
import sys
from itertools import pairwise
from typing import Any

import maturin
from maturin import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

import inject_library
import wheel_documents

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def profile() -> str:
    """The profile that maturin builds with, so that both libraries share their dependencies."""
    words = shlex.split(os.environ.get("MATURIN_PEP517_ARGS", ""))
    for word, following in pairwise([*words, ""]):
        if word == "--profile":
            return following
        if word.startswith("--profile="):
            return word.partition("=")[2]
    return "release"


def _build_library() -> None:
    if sys.platform == "linux":
        inject_library.place(inject_library.build(profile()))


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """A wheel with both libraries and the documentation."""
    _build_library()
    with wheel_documents.placed():
        return str(maturin.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """An editable install with both libraries."""
    _build_library()
    return str(maturin.build_editable(wheel_directory, config_settings, metadata_directory))
