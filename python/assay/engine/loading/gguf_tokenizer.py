"""The tokenizer of a GGUF file, rebuilt for the `tokenizers` library from the metadata.

Patterns, defaults and the tokens that end a generation are those of llama.cpp's `llama-vocab.cpp`
(the patterns are in turn those of the models' own tokenizer.json).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from assay.engine.loading.once import Once
from assay.engine.loading.tokenizer import SPACE, Tokenizer, byte_alphabet
from assay.engine.loading.vocabulary import Vocabulary, WholeVocabulary, library_errors
from assay.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    import tokenizers

    from assay._native import StoredTexts
    from assay.engine.loading.gguf_metadata import GgufMetadata

_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_CONTRACTIONS: Final = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_BREAKS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_WORDS: Final = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


class Splitting(NamedTuple):
    """How text is cut before merging, one pattern after another, and what goes with it."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False


_LLAMA3: Final = Splitting(
    (f"{_CONTRACTIONS}|{_WORDS}|\\p{{N}}{{1,3}}|{_SIGNS}|{_BREAKS}",),
    ignore_merges=True,
    add_bos=True,
)
_QWEN2: Final = Splitting((f"{_CONTRACTIONS}|{_WORDS}|\\p{{N}}|{_SIGNS}|{_BREAKS}",))
_DIGITS_THEN_GPT2: Final = Splitting((r"\p{N}", _GPT2))

SPLITTINGS: Final[dict[str, Splitting]] = {
    "default": Splitting((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    "gpt-2": Splitting((_GPT2,)),
    "olmo": Splitting((_GPT2,)),
    "smollm": _DIGITS_THEN_GPT2,
    "starcoder": _DIGITS_THEN_GPT2,
    "refact": _DIGITS_THEN_GPT2,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama-bpe": _LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "tekken": Splitting(
        (
            rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
            rf"|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_BREAKS}",
        ),
        ignore_merges=True,
        add_bos=True,
    ),
}
"""Ways to split text by their names in `tokenizer.ggml.pre`."""

_ENDS: Final = (
    *("<|eot_id|>", "<|im_end|>", "<|end|>", "<|eom_id|>", "<end_of_turn>", "<|endoftext|>"),
    *("<|end_of_text|>", "<EOT>", "_<EOT>", "</s>", "<|fim_pad|>", "<fim-pad>", "<fim_pad>"),
    *("<PAD>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "<|file_sep|>",
)
"""Texts of tokens at which llama.cpp ends a generation, besides those the file names."""

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
"""The types of tokens in `tokenizer.ggml.token_type`."""

_TOKENS: Final = "tokenizer.ggml.tokens"

SHORT: Final = 1024
"""Characters of a text for which it does not pay to build a library of all pieces."""


def tokenizer_from_gguf(metadata: GgufMetadata) -> Tokenizer:
    """Build the tokenizer that the metadata describes."""
    model = metadata.need("tokenizer.ggml.model", str)
    if model not in ("gpt2", "llama"):
        raise UnsupportedError(
            f'{metadata.where}: expected tokenizer.ggml.model "gpt2" or "llama", got "{model}"'
        )
    texts = metadata.texts(_TOKENS)
    if (twice := texts.repeated()) is not None:
        raise InputError(
            f"{metadata.where}: expected {_TOKENS} without repeats, got {twice!r} twice"
        )
    types = metadata.items("tokenizer.ggml.token_type", int)
    if len(types) != len(texts):
        raise InputError(
            f"{metadata.where}: expected tokenizer.ggml.token_type for {len(texts)} tokens, "
            f"got {len(types)}"
        )
    known = texts.places(" ".join(_ENDS))
    ends = {known[text] for text in _ENDS if text in known}
    for token in ends:
        # Some files call them ordinary tokens, and nobody wants to read them.
        types[token] = _CONTROL
    vocabulary: Vocabulary
    if model == "gpt2":
        splitting = _splitting(metadata)
        vocabulary, add_bos = ByteVocabulary(metadata, texts, types, splitting), splitting.add_bos
    else:
        library = _sentence_pieces(metadata, types, texts.places())
        _add_special(library, _marks(texts, types))
        vocabulary, add_bos = WholeVocabulary(library, metadata.where), True
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


class ByteVocabulary:
    """Pieces of bytes, of which the library gets as many as the texts at hand need.

    Handing a whole vocabulary over takes longer than everything else before a first token. But a
    merge makes a piece that occurs in the text, so pieces that do not occur in it change nothing:
    a library without them cuts a first, short text in the same way. What is wrong with merges that
    no text needs shows when the whole library is built.
    """

    byte_level = True
    strips_space = False

    def __init__(
        self, metadata: GgufMetadata, texts: StoredTexts, types: Sequence[int], splitting: Splitting
    ) -> None:
        """Look at the metadata; nothing is handed to the library yet."""
        self._splitting = splitting
        self.size = len(texts)
        self.added = _marks(texts, types)
        self._where = metadata.where
        self._texts = texts
        self._merges = metadata.texts("tokenizer.ggml.merges")
        self._whole = Once(lambda: self._library(texts.places(), self._merges.pairs(), self.added))
        self._asked = False

    def text_of(self, token: int) -> str | None:
        """A token as the vocabulary writes it, if there is one."""
        return self._texts[token] if 0 <= token < self.size else None

    def encoder(self, texts: Sequence[str]) -> tokenizers.Tokenizer:
        """A library that knows the pieces of these texts, or all of them from the second time on."""
        first, self._asked = not self._asked, True
        if self._whole.made or not first or sum(map(len, texts)) > SHORT:
            return self._whole.get()
        # No piece goes over the break: it is no letter of the alphabet.
        alphabet = byte_alphabet()
        written = "\n".join(
            "".join(alphabet[byte] for byte in text.encode("utf-8", "replace")) for text in texts
        )
        pieces = self._texts.places(written)
        # The library leaves out bytes that are no pieces: what stands around them may merge.
        if lacking := set(written) - {"\n"} - pieces.keys():
            written += "\n" + "".join(letter for letter in written if letter not in lacking)
            pieces = self._texts.places(written)
        marks = {
            token: mark for token, mark in self.added.items() if any(mark[0] in t for t in texts)
        }
        pieces |= {text: token for token, (text, _) in marks.items()}
        return self._library(pieces, self._merges.pairs(written), marks)

    def build(self) -> None:
        """Build the whole library."""
        self._whole.get()

    def _library(
        self,
        pieces: dict[str, int],
        merges: list[tuple[str, str]],
        marks: Mapping[int, tuple[str, bool]],
    ) -> tokenizers.Tokenizer:
        from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers

        splitting = self._splitting
        library = Tokenizer(_merging(self._where, pieces, merges, splitting.ignore_merges))
        steps: list[Any] = [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated")
            for pattern in splitting.patterns
        ]
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        library.pre_tokenizer = pre_tokenizers.Sequence(steps)
        library.decoder = decoders.ByteLevel()
        _add_special(library, marks)
        return library


def _splitting(metadata: GgufMetadata) -> Splitting:
    name = metadata.need("tokenizer.ggml.pre", str)
    if name not in SPLITTINGS:
        raise UnsupportedError(
            f'{metadata.where}: expected a known tokenizer.ggml.pre, got "{name}"',
            f"one of: {', '.join(SPLITTINGS)}",
        )
    return SPLITTINGS[name]


def _merging(
    where: str,
    vocabulary: dict[str, int],
    merges: list[tuple[str, str]],
    ignore_merges: bool,
    **options: Any,
) -> Any:
    from tokenizers import models

    with library_errors(f"{where}: expected tokenizer.ggml.merges of pieces in the vocabulary"):
        return models.BPE(vocabulary, merges, ignore_merges=ignore_merges, **options)


def _sentence_pieces(
    metadata: GgufMetadata, types: list[int], vocabulary: dict[str, int]
) -> tokenizers.Tokenizer:
    """SentencePiece merges the pair whose piece scores best: that is BPE, ranked by score."""
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
    model = _merging(
        metadata.where,
        vocabulary,
        merges,
        False,
        unk_token=None if unknown is None else tokens[unknown],
        fuse_unk=True,
        byte_fallback=True,
    )
    library = Tokenizer(model)
    prefixed = metadata.get("tokenizer.ggml.add_space_prefix", bool)
    steps: list[Any] = [] if prefixed is False else [normalizers.Prepend(SPACE)]
    library.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    ending: list[Any] = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefixed is not False:
        ending.append(decoders.Strip(" ", 1, 0))
    library.decoder = decoders.Sequence(ending)
    return library


def _marks(texts: StoredTexts, types: Sequence[int]) -> dict[int, tuple[str, bool]]:
    """Tokens that are found in a text as they are, before it is split; whether each is special."""
    unusual = [(token, type_) for token, type_ in enumerate(types) if type_ != _NORMAL]
    return {
        token: (texts[token], type_ != _USER_DEFINED)
        for token, type_ in unusual
        if type_ in (_CONTROL, _UNKNOWN, _USER_DEFINED)
    }


def _add_special(library: tokenizers.Tokenizer, marks: Mapping[int, tuple[str, bool]]) -> None:
    from tokenizers import AddedToken

    special = [text for text, is_special in marks.values() if is_special]
    library.add_special_tokens([AddedToken(text, normalized=False) for text in special])
    own = [text for text, is_special in marks.values() if not is_special]
    library.add_tokens([AddedToken(text, normalized=False, special=False) for text in own])
