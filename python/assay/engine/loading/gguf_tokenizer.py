"""The tokenizer of a GGUF file, rebuilt for the `tokenizers` library from the metadata.

Defaults and end-of-generation tokens are those of llama.cpp's `llama-vocab.cpp`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from assay.engine.loading.gguf_pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from assay.engine.loading.once import Once
from assay.engine.loading.tokenizer import SPACE, Tokenizer, byte_alphabet
from assay.engine.loading.vocabulary import LibraryVocabulary, Vocabulary, library_errors
from assay.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    import tokenizers

    from assay._native import StoredTexts
    from assay.engine.loading.gguf_metadata import GgufMetadata

_EOG_TOKENS: Final = (
    *("<|eot_id|>", "<|im_end|>", "<|end|>", "<|eom_id|>", "<end_of_turn>", "<|endoftext|>"),
    *("<|end_of_text|>", "<EOT>", "_<EOT>", "</s>", "<|fim_pad|>", "<fim-pad>", "<fim_pad>"),
    *("<PAD>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    *("<|file_sep|>", "<|return|>", "<|call|>"),
)
"""Tokens at which llama.cpp ends a generation (EOG), besides those the file names."""

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
"""Token types in `tokenizer.ggml.token_type`."""

_TOKENS: Final = "tokenizer.ggml.tokens"

SHORT_TEXT: Final = 1024
"""Characters up to which a first text is encoded with a partial vocabulary."""


def tokenizer_from_gguf(metadata: GgufMetadata) -> Tokenizer:
    """Build the tokenizer that the metadata describes."""
    model = metadata.require("tokenizer.ggml.model", str)
    if model not in ("gpt2", "llama"):
        raise UnsupportedError(
            f'{metadata.where}: expected tokenizer.ggml.model "gpt2" or "llama", got "{model}"'
        )
    texts = metadata.texts(_TOKENS)
    if (repeated := texts.repeated()) is not None:
        raise InputError(
            f"{metadata.where}: expected {_TOKENS} without repeats, got {repeated!r} twice"
        )
    types = metadata.items("tokenizer.ggml.token_type", int)
    if len(types) != len(texts):
        raise InputError(
            f"{metadata.where}: expected tokenizer.ggml.token_type for {len(texts)} tokens, "
            f"got {len(types)}"
        )
    known = texts.indices(" ".join(_EOG_TOKENS))
    ends = {known[text] for text in _EOG_TOKENS if text in known}
    if "<|return|>" in known and "<|call|>" in known:
        # gpt-oss ends each message with it, and goes on.
        ends.discard(known.get("<|end|>", -1))
    for token in ends:
        # Some files mark them as normal tokens, which would show them in the output.
        types[token] = _CONTROL
    vocabulary: Vocabulary
    if model == "gpt2":
        pre_tokenizer = _pre_tokenizer_of(metadata)
        vocabulary, add_bos = (
            ByteLevelVocabulary(metadata, texts, types, pre_tokenizer),
            pre_tokenizer.add_bos,
        )
    else:
        library = _sentencepiece(metadata, types, texts.indices())
        _add_special(library, _added_tokens(texts, types))
        vocabulary, add_bos = LibraryVocabulary(library, metadata.where), True
    asked_bos = metadata.get("tokenizer.ggml.add_bos_token", bool)
    for name in ("eos", "eot", "eom"):
        end = metadata.get(f"tokenizer.ggml.{name}_token_id", int)
        ends |= set() if end is None else {end}
    return Tokenizer(
        vocabulary,
        bos_id=metadata.get("tokenizer.ggml.bos_token_id", int),
        eos_id=metadata.get("tokenizer.ggml.eos_token_id", int),
        stop_ids=ends,
        add_bos=add_bos if asked_bos is None else asked_bos,
        add_eos=metadata.get("tokenizer.ggml.add_eos_token", bool) or False,
        source=metadata.where,
    )


class ByteLevelVocabulary:
    """A byte-level BPE vocabulary that builds the library's tokenizer lazily.

    Building a full vocabulary takes longer than everything else before the first token. A BPE
    merge only makes a token whose text occurs in the input, so tokens that do not occur in it
    change nothing: a partial vocabulary encodes a first, short text in the same way. Invalid
    merges that no text needs are reported when the full vocabulary is built.
    """

    byte_level = True
    strips_space = False
    word_suffix: str | None = None

    def __init__(
        self,
        metadata: GgufMetadata,
        texts: StoredTexts,
        types: Sequence[int],
        pre_tokenizer: PreTokenizer,
    ) -> None:
        """Read the metadata; the library's tokenizer is not built yet."""
        self._pre_tokenizer = pre_tokenizer
        self.size = len(texts)
        self.added = _added_tokens(texts, types)
        self._where = metadata.where
        self._texts = texts
        self._merges = metadata.texts("tokenizer.ggml.merges")
        self._full = Once(lambda: self._library(texts.indices(), self._merges.pairs(), self.added))
        self._has_encoded = False

    def text_of(self, token: int) -> str | None:
        """The text of a token in the vocabulary, or None."""
        return self._texts[token] if 0 <= token < self.size else None

    def encoder(self, texts: Sequence[str]) -> tokenizers.Tokenizer:
        """The tokenizer: partial for a first, short text, full afterward."""
        first, self._has_encoded = not self._has_encoded, True
        if self._full.is_ready or not first or sum(map(len, texts)) > SHORT_TEXT:
            return self._full.get()
        # No token spans the line break: it is not in the byte alphabet.
        alphabet = byte_alphabet()
        encoded = "\n".join(
            "".join(alphabet[byte] for byte in text.encode("utf-8", "replace")) for text in texts
        )
        tokens_by_text = self._texts.indices(encoded)
        # The library drops bytes that are not tokens, so that their neighbors may merge.
        if missing := set(encoded) - {"\n"} - tokens_by_text.keys():
            encoded += "\n" + "".join(
                character for character in encoded if character not in missing
            )
            tokens_by_text = self._texts.indices(encoded)
        added = {
            token: entry for token, entry in self.added.items() if any(entry[0] in t for t in texts)
        }
        tokens_by_text |= {text: token for token, (text, _) in added.items()}
        return self._library(tokens_by_text, self._merges.pairs(encoded), added)

    def build(self) -> None:
        """Build the full vocabulary."""
        self._full.get()

    def _library(
        self,
        tokens_by_text: dict[str, int],
        merges: list[tuple[str, str]],
        added: Mapping[int, tuple[str, bool]],
    ) -> tokenizers.Tokenizer:
        from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers

        pre_tokenizer = self._pre_tokenizer
        library = Tokenizer(
            _bpe_model(self._where, tokens_by_text, merges, pre_tokenizer.ignore_merges)
        )
        steps: list[Any] = [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated")
            for pattern in pre_tokenizer.patterns
        ]
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        library.pre_tokenizer = pre_tokenizers.Sequence(steps)
        library.decoder = decoders.ByteLevel()
        _add_special(library, added)
        return library


def _pre_tokenizer_of(metadata: GgufMetadata) -> PreTokenizer:
    name = metadata.require("tokenizer.ggml.pre", str)
    if name not in PRE_TOKENIZERS:
        raise UnsupportedError(
            f'{metadata.where}: expected a known tokenizer.ggml.pre, got "{name}"',
            f"one of: {', '.join(PRE_TOKENIZERS)}",
        )
    return PRE_TOKENIZERS[name]


def _bpe_model(
    where: str,
    vocabulary: dict[str, int],
    merges: list[tuple[str, str]],
    ignore_merges: bool,
    **options: Any,
) -> Any:
    from tokenizers import models

    with library_errors(f"{where}: expected tokenizer.ggml.merges of tokens in the vocabulary"):
        return models.BPE(vocabulary, merges, ignore_merges=ignore_merges, **options)


def _sentencepiece(
    metadata: GgufMetadata, types: list[int], vocabulary: dict[str, int]
) -> tokenizers.Tokenizer:
    """SentencePiece merges the pair with the best score: BPE with merges ranked by score."""
    from tokenizers import Tokenizer, decoders, normalizers

    tokens = list(vocabulary)
    scores = metadata.items("tokenizer.ggml.scores", float)
    if len(scores) != len(tokens):
        raise InputError(
            f"{metadata.where}: expected tokenizer.ggml.scores for {len(tokens)} tokens, "
            f"got {len(scores)}"
        )
    unknown = metadata.get("tokenizer.ggml.unknown_token_id", int)
    if unknown is not None and not 0 <= unknown < len(tokens):
        raise InputError(
            f"{metadata.where}: expected tokenizer.ggml.unknown_token_id below {len(tokens)}, "
            f"got {unknown}"
        )
    mergeable = {
        token: id_ for token, id_ in vocabulary.items() if types[id_] in (_NORMAL, _USER_DEFINED)
    }
    ranked = sorted(
        (-scores[id_], id_, mergeable[token[:cut]], mergeable[token[cut:]])
        for token, id_ in mergeable.items()
        for cut in range(1, len(token))
        if token[:cut] in mergeable and token[cut:] in mergeable
    )
    merges = [(tokens[left], tokens[right]) for _, _, left, right in ranked]
    model = _bpe_model(
        metadata.where,
        vocabulary,
        merges,
        False,
        unk_token=None if unknown is None else tokens[unknown],
        fuse_unk=True,
        byte_fallback=True,
    )
    library = Tokenizer(model)
    adds_prefix = metadata.get("tokenizer.ggml.add_space_prefix", bool)
    steps: list[Any] = [] if adds_prefix is False else [normalizers.Prepend(SPACE)]
    library.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    decoding: list[Any] = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if adds_prefix is not False:
        decoding.append(decoders.Strip(" ", 1, 0))
    library.decoder = decoders.Sequence(decoding)
    return library


def _added_tokens(texts: StoredTexts, types: Sequence[int]) -> dict[int, tuple[str, bool]]:
    """Tokens that are matched before pre-tokenization, and whether each is special."""
    typed = [(token, type_) for token, type_ in enumerate(types) if type_ != _NORMAL]
    return {
        token: (texts[token], type_ != _USER_DEFINED)
        for token, type_ in typed
        if type_ in (_CONTROL, _UNKNOWN, _USER_DEFINED)
    }


def _add_special(library: tokenizers.Tokenizer, added: Mapping[int, tuple[str, bool]]) -> None:
    from tokenizers import AddedToken

    special = [text for text, is_special in added.values() if is_special]
    library.add_special_tokens([AddedToken(text, normalized=False) for text in special])
    ordinary = [text for text, is_special in added.values() if not is_special]
    library.add_tokens([AddedToken(text, normalized=False, special=False) for text in ordinary])
