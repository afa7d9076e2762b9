"""Folders of small encoders, as sentence-transformers writes them."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from assay.engine.loading.synthetic import write_folder

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "un", "##able", "##s", "on")
SMALL = {
    "vocab_size": len(WORDS),
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
POOLING = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "last": "pooling_mode_lasttoken",
}


def word_piece() -> Tokenizer:
    """BERT's tokenizer over a few words."""
    vocabulary = {word: index for index, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens(list(WORDS[:4]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding()
    return tokenizer


def write_encoder(
    folder: Path, *, pooling: str | None = "mean", config: dict[str, Any] | None = None
) -> Path:
    """A BERT with the tokenizer above; without `pooling`, as transformers alone writes it."""
    write_folder(folder, "bert", config={**SMALL, **(config or {})})
    word_piece().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").unlink()
    if pooling is not None:
        modules = ["", "1_Pooling", "2_Normalize"]
        kinds = ["Transformer", "Pooling", "Normalize"]
        listed = [
            {"idx": index, "path": path, "type": f"sentence_transformers.models.{kind}"}
            for index, (path, kind) in enumerate(zip(modules, kinds, strict=True))
        ]
        (folder / "modules.json").write_text(json.dumps(listed))
        (folder / "1_Pooling").mkdir()
        flags = {name: kind == pooling for kind, name in POOLING.items()}
        (folder / "1_Pooling" / "config.json").write_text(
            json.dumps({"word_embedding_dimension": 64, **flags})
        )
    return folder
