"""A Hugging Face folder of an encoder as a model: its tensors, tokenizer and pooling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.engine.architectures.registry import ENCODERS
from assay.engine.loading.encoder_configuration import validated_encoder
from assay.engine.loading.model_files import ModelFiles, Tensor
from assay.engine.loading.sentence_transformers import text_settings
from assay.engine.loading.tensor_shapes import check_tensors
from assay.engine.loading.tokenizer import Tokenizer
from assay.engine.loading.vocabulary import LibraryVocabulary, library_errors, read_library
from assay.errors import UnsupportedError

if TYPE_CHECKING:
    from assay._native import StoredTensor

_HEADS: Final = ("pooler.", "cls.", "lm_head.", "classifier.", "qa_outputs.")
"""How the names of layers behind the encoder begin."""

_OLD_NAMES: Final = {".gamma": ".weight", ".beta": ".bias"}
"""Endings that files converted from TensorFlow have for LayerNorm."""


def open_encoder(folder: Path, raw: dict[str, Any], stored: Iterable[StoredTensor]) -> ModelFiles:
    """Open the folder of an encoder, whose configuration and tensors are these."""
    where, architecture = str(folder / "config.json"), raw["model_type"]
    config, notes = validated_encoder(where, architecture, raw)
    tensors, unused = {}, []
    for one in stored:
        name = _short_name(architecture, one.name)
        if name.startswith(_HEADS):
            unused.append(name)
        elif not name.endswith("position_ids"):
            tensors[name] = Tensor.stored(name, one)
    check_tensors(str(folder), architecture, config, tensors)
    if unused:
        first = ", ".join(sorted(unused)[:2])
        notes = (
            *notes,
            f"{folder}: {len(unused)} tensors behind the encoder, not used: {first} ...",
        )
    settings = text_settings(folder)
    config |= {"pooling": settings.pooling, "max_seq_length": settings.max_tokens}
    return ModelFiles(
        name=folder.resolve().name,
        path=folder,
        architecture=architecture,
        config=config,
        tensors=tensors,
        rope_pairs="half",
        make_tokenizer=lambda: _tokenizer(folder, lower_case=settings.lower_case),
        notes=(*notes, *settings.notes),
    )


def is_encoder(files: ModelFiles) -> bool:
    """Whether a model computes embeddings and generates no text."""
    return files.architecture in ENCODERS


def _short_name(architecture: str, name: str) -> str:
    """The name without that of the whole model, and with the endings of now."""
    name = name.removeprefix(f"{ENCODERS[architecture].prefix}.")
    for old, new in _OLD_NAMES.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def _tokenizer(folder: Path, *, lower_case: bool) -> Tokenizer:
    path = folder / "tokenizer.json"
    library = read_library(path)
    with library_errors(f"{path}: expected a tokenizer"):
        if lower_case:
            _lower(library)
        special = library.encode("", add_special_tokens=True).ids
    if len(special) > 2:
        raise UnsupportedError(
            f"{path}: expected a post-processor that adds a token before and one behind a text, "
            f"got {len(special)} tokens"
        )
    # [CLS] and [SEP] of BERT, <s> and </s> of RoBERTa.
    begin, end = (*special, None, None)[:2]
    return Tokenizer(
        LibraryVocabulary(library, str(path)),
        bos_id=begin,
        eos_id=end,
        stop_ids=(),
        add_bos=begin is not None,
        add_eos=end is not None,
        source=str(path),
    )


def _lower(library: Any) -> None:
    """Texts in lower case before anything else, as sentence-transformers does where told."""
    from tokenizers import normalizers

    steps = [normalizers.Lowercase(), library.normalizer]
    library.normalizer = normalizers.Sequence([step for step in steps if step is not None])


def pooling_of(config: Mapping[str, Any]) -> str:
    """How the hidden states of a text's tokens become one vector: mean, cls, last or max."""
    return str(config.get("pooling", "mean"))
