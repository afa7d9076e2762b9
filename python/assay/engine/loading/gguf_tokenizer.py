"""The tokenizer of a GGUF file, rebuilt for the `tokenizers` library from the metadata.

Patterns, defaults and the tokens that end a generation are those of llama.cpp's `llama-vocab.cpp`
(the patterns are in turn those of the models' own tokenizer.json).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.engine.loading.tokenizer import Tokenizer
from assay.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    import tokenizers

    from assay.engine.loading.gguf import Metadata

_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_CONTRACTIONS: Final = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_BREAKS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_WORDS: Final = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


@dataclass(frozen=True, slots=True)
class Splitting:
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

_SPACE: Final = "\u2581"


def tokenizer_from_gguf(metadata: Metadata) -> Tokenizer:
    """Build the tokenizer that the metadata describes."""
    model = metadata.need("tokenizer.ggml.model", str)
    vocabulary = metadata.places("tokenizer.ggml.tokens")
    types = metadata.items("tokenizer.ggml.token_type", int)
    if len(types) != len(vocabulary):
        raise InputError(
            f"{metadata.where}: expected tokenizer.ggml.token_type for {len(vocabulary)} tokens, "
            f"got {len(types)}"
        )
    for text in _ENDS:
        # Some files call them ordinary tokens, and nobody wants to read them.
        if text in vocabulary:
            types[vocabulary[text]] = _CONTROL
    if model == "gpt2":
        library, add_bos = _byte_level(metadata, vocabulary)
    elif model == "llama":
        library, add_bos = _sentence_pieces(metadata, types, vocabulary), True
    else:
        raise UnsupportedError(
            f'{metadata.where}: expected tokenizer.ggml.model "gpt2" or "llama", got "{model}"'
        )
    _add_special(library, list(vocabulary), types)
    ends = {metadata.get(f"tokenizer.ggml.{name}_token_id", int) for name in ("eos", "eot", "eom")}
    ends |= {vocabulary[text] for text in _ENDS if text in vocabulary}
    asked_bos = metadata.get("tokenizer.ggml.add_bos_token", bool)
    return Tokenizer(
        library,
        bos_id=metadata.get("tokenizer.ggml.bos_token_id", int),
        eos_id=metadata.get("tokenizer.ggml.eos_token_id", int),
        stop_ids=(end for end in ends if end is not None),
        add_bos=add_bos if asked_bos is None else asked_bos,
        add_eos=metadata.get("tokenizer.ggml.add_eos_token", bool) or False,
        source=metadata.where,
    )


def _byte_level(
    metadata: Metadata, vocabulary: dict[str, int]
) -> tuple[tokenizers.Tokenizer, bool]:
    from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers

    name = metadata.need("tokenizer.ggml.pre", str)
    splitting = SPLITTINGS.get(name)
    if splitting is None:
        raise UnsupportedError(
            f'{metadata.where}: expected a known tokenizer.ggml.pre, got "{name}"',
            f"one of: {', '.join(SPLITTINGS)}",
        )
    merges = metadata.pairs("tokenizer.ggml.merges")
    library = Tokenizer(_merging(metadata, vocabulary, merges, splitting.ignore_merges))
    steps: list[Any] = [
        pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in splitting.patterns
    ]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    library.pre_tokenizer = pre_tokenizers.Sequence(steps)
    library.decoder = decoders.ByteLevel()
    return library, splitting.add_bos


def _merging(
    metadata: Metadata,
    vocabulary: dict[str, int],
    merges: list[tuple[str, str]],
    ignore_merges: bool,
    **options: Any,
) -> Any:
    from tokenizers import models

    try:
        return models.BPE(vocabulary, merges, ignore_merges=ignore_merges, **options)
    except Exception as error:  # The library raises the base class itself.
        raise InputError(
            f"{metadata.where}: expected tokenizer.ggml.merges of pieces in the vocabulary, "
            f"got: {error}"
        ) from None


def _sentence_pieces(
    metadata: Metadata, types: list[int], vocabulary: dict[str, int]
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
        metadata,
        vocabulary,
        merges,
        False,
        unk_token=None if unknown is None else tokens[unknown],
        fuse_unk=True,
        byte_fallback=True,
    )
    library = Tokenizer(model)
    prefixed = metadata.get("tokenizer.ggml.add_space_prefix", bool)
    steps: list[Any] = [] if prefixed is False else [normalizers.Prepend(_SPACE)]
    library.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", _SPACE)])
    ending: list[Any] = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefixed is not False:
        ending.append(decoders.Strip(" ", 1, 0))
    library.decoder = decoders.Sequence(ending)
    return library


def _add_special(library: tokenizers.Tokenizer, tokens: list[str], types: list[int]) -> None:
    """Tokens that are found in a text as they are, before it is split."""
    from tokenizers import AddedToken

    marks = [id_ for id_, type_ in enumerate(types) if type_ in (_CONTROL, _UNKNOWN)]
    library.add_special_tokens([AddedToken(tokens[id_], normalized=False) for id_ in marks])
    own = [id_ for id_, type_ in enumerate(types) if type_ == _USER_DEFINED]
    library.add_tokens([AddedToken(tokens[id_], normalized=False, special=False) for id_ in own])
