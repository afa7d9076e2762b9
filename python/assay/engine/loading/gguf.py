"""A GGUF file as a model: metadata as config.json keys, tensors under Hugging Face names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from assay._native import GgufFile
from assay.engine.loading import gguf_encoder, sampling_defaults
from assay.engine.loading.configuration import validated
from assay.engine.loading.gguf_configuration import NAMES, configuration
from assay.engine.loading.gguf_keys import check_gguf_keys
from assay.engine.loading.gguf_metadata import GgufMetadata
from assay.engine.loading.gguf_split import stored_tensors
from assay.engine.loading.gguf_tensors import PERMUTED, model_tensors
from assay.engine.loading.model_files import ModelFiles
from assay.engine.loading.tensor_shapes import ROPE_FACTORS, check_tensors
from assay.errors import UnsupportedError

if TYPE_CHECKING:
    from assay.engine.loading.tokenizer import Tokenizer


def open_gguf(path: Path) -> ModelFiles:
    """Read a GGUF file."""
    where = path.name
    file = GgufFile(path)
    metadata = GgufMetadata(where, file)
    stored = stored_tensors(path, file, metadata)
    stated = metadata.require("general.architecture", str)
    if stated == gguf_encoder.NAME:
        return gguf_encoder.open_gguf_encoder(path, metadata, stored)
    if stated not in NAMES:
        raise UnsupportedError(
            f'{where}: general.architecture: expected a known architecture, got "{stated}"',
            f"one of: {', '.join((*NAMES, gguf_encoder.NAME))}",
        )
    key_notes = check_gguf_keys(metadata, stated)
    architecture, given = configuration(metadata, stated, stored)
    config, notes = validated(where, architecture, given)
    if architecture == "gpt_oss":
        config["separate_gates"] = True
    tensors = model_tensors(where, stated, config, stored.values())
    if ROPE_FACTORS in tensors:
        if config["rope_scaling"] is not None:
            raise UnsupportedError(
                f"{where}: expected rope scaling by {ROPE_FACTORS} or by metadata, got both"
            )
        config["rope_scaling"] = {"rope_type": "factors", "tensor": ROPE_FACTORS}
    check_tensors(where, architecture, config, tensors)

    def make_tokenizer() -> Tokenizer:
        from assay.engine.loading.gguf_tokenizer import tokenizer_from_gguf

        return tokenizer_from_gguf(metadata)

    return ModelFiles(
        name=metadata.get("general.name", str) or path.stem,
        path=path,
        architecture=architecture,
        config=config,
        tensors=tensors,
        rope_pairs="interleaved" if stated in PERMUTED else "half",
        make_tokenizer=make_tokenizer,
        template_text=metadata.get("tokenizer.chat_template", str),
        notes=(*notes, *key_notes),
        sampling=sampling_defaults.from_gguf(metadata),
        norms_include_offset=True,
    )
