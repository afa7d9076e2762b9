"""Models that are split into several GGUF files, as llama.cpp's gguf-split writes them.

The first file has the metadata; the others have tensors, and say which part they are.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from assay._native import GgufFile, StoredTensor
from assay.engine.loading.gguf_metadata import GgufMetadata
from assay.errors import InputError

_NAME: Final = re.compile(r"(.{1,200})-(\d{5})-of-(\d{5})\.gguf")


def stored_tensors(path: Path, file: GgufFile, metadata: GgufMetadata) -> dict[str, StoredTensor]:
    """The tensors of a file and of those that it is split into, by their names in the file."""
    tensors = {tensor.name: tensor for tensor in file.tensors()}
    count = metadata.get("split.count", int) or 1
    if count == 1:
        return tensors
    number = metadata.require("split.no", int)
    name = _NAME.fullmatch(path.name)
    if name is None or int(name[3]) != count or int(name[2]) != number + 1:
        raise InputError(
            f"{path.name}: expected a name that ends with -{number + 1:05}-of-{count:05}.gguf",
            "the parts of a split model are found by their names",
        )
    if number != 0:
        raise InputError(
            f"{path.name}: expected the first of {count} parts, got part {number + 1}",
            f"open {name[1]}-00001-of-{count:05}.gguf",
        )
    for part in range(1, count):
        tensors |= _tensors_of_part(
            path.with_name(f"{name[1]}-{part + 1:05}-of-{count:05}.gguf"), part, count, tensors
        )
    total = metadata.get("split.tensors.count", int)
    if total is not None and total != len(tensors):
        raise InputError(
            f"{path.name}: expected {total} tensors in {count} parts, got {len(tensors)}"
        )
    return tensors


def _tensors_of_part(
    path: Path, part: int, count: int, known: dict[str, StoredTensor]
) -> dict[str, StoredTensor]:
    if not path.is_file():
        raise InputError(
            f"{path.name}: expected part {part + 1} of {count} beside the first, got no such file"
        )
    file = GgufFile(path)
    metadata = GgufMetadata(path.name, file)
    found = metadata.require("split.no", int), metadata.require("split.count", int)
    if found != (part, count):
        raise InputError(
            f"{path.name}: expected split.no {part} of {count}, got {found[0]} of {found[1]}"
        )
    tensors = {tensor.name: tensor for tensor in file.tensors()}
    if repeated := next((name for name in tensors if name in known), None):
        raise InputError(f'{path.name}: expected tensors of its own, got "{repeated}" again')
    return tensors
