"""Rivals of the decode suite by name."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Final

from assay.bench.harness.case import Absent
from assay.bench.rivals.decoder import Decoder
from assay.bench.rivals.llama_cpp import LlamaCppDecoder
from assay.bench.rivals.transformers import TransformersDecoder
from assay.errors import unknown_name

RIVALS: Final[dict[str, tuple[type[Any], tuple[str, ...]]]] = {
    "llama.cpp": (LlamaCppDecoder, ("llama_cpp",)),
    "transformers": (TransformersDecoder, ("transformers", "torch")),
}
"""Rivals by name, and the modules that each needs."""

_GGUF_MODULES: Final = ("gguf", "accelerate")
"""Modules that transformers needs to read GGUF files."""


def rival(name: str, path: Path | None) -> Decoder | Absent:
    """A rival with this model loaded, or the reason why it is not measured."""
    if name not in RIVALS:
        raise unknown_name("rival", name, RIVALS)
    make, modules = RIVALS[name]
    if path is None:
        return Absent(name, "the model has no file that it could load")
    if name == "transformers" and path.is_file():
        modules = (*modules, *_GGUF_MODULES)
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        return Absent(name, f"{' and '.join(missing)} not installed")
    if name == "llama.cpp" and path.suffix != ".gguf":
        return Absent(name, "it reads GGUF files only")
    made: Decoder = make(path)
    return made
