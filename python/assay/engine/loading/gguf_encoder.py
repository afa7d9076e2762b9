"""A GGUF file of an encoder as a model: BERT with its WordPiece tokenizer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.engine.loading.encoder_configuration import validated_encoder
from assay.engine.loading.gguf_keys import check_gguf_keys
from assay.engine.loading.gguf_metadata import GgufMetadata
from assay.engine.loading.model_files import ModelFiles, Tensor
from assay.engine.loading.tensor_shapes import check_tensors
from assay.engine.loading.tokenizer import SPACE, Tokenizer
from assay.engine.loading.vocabulary import LibraryVocabulary, library_errors
from assay.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from assay._native import StoredTensor

NAME: Final = "bert"
"""The architecture in GGUF files, as in `config.json`."""

_POOLING: Final = {1: "mean", 2: "cls", 3: "last"}
"""By the numbers of `pooling_type`."""

_TABLES: Final = {
    "token_embd": "embeddings.word_embeddings",
    "position_embd": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "embeddings.LayerNorm",
}
_LAYERS: Final = {
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}
_PATTERN: Final = re.compile(r"(?:blk\.(0|[1-9][0-9]{0,5})\.)?([a-z_]+)\.(weight|bias)")
_HEADS: Final = ("cls.", "cls_out.")
_CONTROL: Final = 3
"""The type of special tokens."""


def open_gguf_encoder(
    path: Path, metadata: GgufMetadata, stored: Mapping[str, StoredTensor]
) -> ModelFiles:
    """Read a file whose architecture is BERT."""
    where = path.name
    kind = metadata.require("tokenizer.ggml.model", str)
    if kind != NAME:
        raise UnsupportedError(
            f'{where}: expected tokenizer.ggml.model "{NAME}" (WordPiece), got "{kind}"',
            "open the Hugging Face folder of the model",
        )
    notes = check_gguf_keys(metadata, NAME)
    if metadata.get(f"{NAME}.attention.causal", bool) is not False:
        raise UnsupportedError(f"{where}: expected {NAME}.attention.causal false, got true or none")
    pooling = metadata.get(f"{NAME}.pooling_type", int)
    if pooling is not None and pooling not in _POOLING:
        raise UnsupportedError(
            f"{where}: expected {NAME}.pooling_type 1 (mean), 2 (cls) or 3 (last), got {pooling}"
        )
    if pooling is None:
        notes.append(f"{where} has no {NAME}.pooling_type: mean pooling")
    config, more = validated_encoder(where, NAME, _configuration(metadata))
    config["pooling"] = _POOLING[pooling or 1]
    tensors, unused = {}, []
    for one in stored.values():
        if one.name.startswith(_HEADS):
            unused.append(one.name)
            continue
        name = _name(where, one.name)
        tensors[name] = Tensor.stored(name, one)
    if unused:
        notes.append(
            f"{where}: {len(unused)} tensors behind the encoder, not used: {unused[0]} ..."
        )
    check_tensors(where, NAME, config, tensors)
    return ModelFiles(
        name=metadata.get("general.name", str) or path.stem,
        path=path,
        architecture=NAME,
        config=config,
        tensors=tensors,
        rope_pairs="half",
        make_tokenizer=lambda: _tokenizer(metadata),
        notes=(*more, *notes),
    )


def _configuration(metadata: GgufMetadata) -> dict[str, Any]:
    def count(key: str) -> int:
        return metadata.require(f"{NAME}.{key}", int)

    types = metadata.get("tokenizer.ggml.token_type_count", int)
    return {
        "hidden_size": count("embedding_length"),
        "intermediate_size": count("feed_forward_length"),
        "num_hidden_layers": count("block_count"),
        "num_attention_heads": count("attention.head_count"),
        "max_position_embeddings": count("context_length"),
        "vocab_size": metadata.count("tokenizer.ggml.tokens"),
        "type_vocab_size": 1 if types is None else types,
        "layer_norm_eps": metadata.require(f"{NAME}.attention.layer_norm_epsilon", float),
        # Of the model; llama.cpp approximates it by a tanh.
        "hidden_act": "gelu",
    }


def _name(where: str, name: str) -> str:
    if match := _PATTERN.fullmatch(name):
        layer, stem, kind = match.groups()
        if layer is None and stem in _TABLES:
            return f"{_TABLES[stem]}.{kind}"
        if layer is not None and stem in _LAYERS:
            return f"encoder.layer.{layer}.{_LAYERS[stem]}.{kind}"
    raise UnsupportedError(f'{where}: expected only the tensors of a {NAME} model, got "{name}"')


def _tokenizer(metadata: GgufMetadata) -> Tokenizer:
    """WordPiece: files mark the beginning of a word rather than what continues one."""
    from tokenizers import (
        AddedToken,
        Tokenizer as Library,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
    )

    where = metadata.where
    texts = metadata.items("tokenizer.ggml.tokens", str)
    types = metadata.items("tokenizer.ggml.token_type", int)
    if len(types) != len(texts):
        raise InputError(
            f"{where}: expected tokenizer.ggml.token_type for {len(texts)} tokens, got {len(types)}"
        )
    pieces = [_piece(text, type_) for text, type_ in zip(texts, types, strict=True)]
    vocabulary = {piece: token for token, piece in enumerate(pieces)}
    if len(vocabulary) != len(pieces):
        raise InputError(f"{where}: expected tokenizer.ggml.tokens without repeats, got some twice")
    special = {
        name: _token(metadata, name, len(pieces)) for name in ("unknown", "cls", "seperator")
    }
    with library_errors(f"{where}: expected a WordPiece vocabulary"):
        library = Library(models.WordPiece(vocabulary, unk_token=pieces[special["unknown"]]))
        library.normalizer = normalizers.BertNormalizer(
            lowercase=metadata.get("tokenizer.ggml.normalizer.lowercase", bool) is not False,
            strip_accents=metadata.get("tokenizer.ggml.normalizer.strip_accents", bool),
        )
        library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        library.decoder = decoders.WordPiece(prefix="##")
        library.add_special_tokens(
            [
                AddedToken(piece, normalized=False)
                for piece, type_ in zip(pieces, types, strict=True)
                if type_ == _CONTROL
            ]
        )
    return Tokenizer(
        LibraryVocabulary(library, where),
        bos_id=special["cls"],
        eos_id=special["seperator"],
        stop_ids=(),
        add_bos=True,
        add_eos=True,
        source=where,
    )


def _piece(text: str, type_: int) -> str:
    if type_ == _CONTROL:
        return text
    return text.removeprefix(SPACE) if text.startswith(SPACE) else f"##{text}"


def _token(metadata: GgufMetadata, name: str, count: int) -> int:
    """A special token, by llama.cpp's spelling; a file without one has BERT's own."""
    defaults = {"unknown": 100, "cls": 101, "seperator": 102}
    stated = metadata.get(f"tokenizer.ggml.{name}_token_id", int)
    if stated is None and name == "cls":
        # Newer files state it as the token that begins a text.
        stated = metadata.get("tokenizer.ggml.bos_token_id", int)
    token = defaults[name] if stated is None else stated
    if not 0 <= token < count:
        raise InputError(
            f"{metadata.where}: expected tokenizer.ggml.{name}_token_id below {count}, got {token}"
        )
    return token
