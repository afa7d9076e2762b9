"""How GGUF files name pre-tokenizers: the patterns that split text before byte-level BPE.

Names, patterns and options are those of llama.cpp's `llama-vocab.cpp`; where it approximates the
pattern of a model's tokenizer.json, the original is used.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
# Case folding includes the long s, as in the publishers' patterns; llama.cpp lists letters.
_CONTRACTIONS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BREAKS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_WORDS: Final = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CJK: Final = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_PUNCTUATION: Final = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"


class PreTokenizer(NamedTuple):
    """The patterns that split text before BPE, applied in order, and the options of the model."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False


def _cased(suffix: str, digits: str) -> str:
    """Words that end where a capital letter follows a small one, then digits, signs and breaks."""
    start = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{start}{_UPPER}*{_LOWER}+{suffix}|{start}{_UPPER}+{_LOWER}*{suffix}"
        rf"|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_BREAKS}"
    )


_LLAMA3_PATTERN: Final = f"{_CONTRACTIONS}|{_WORDS}|\\p{{N}}{{1,3}}|{_SIGNS}|{_BREAKS}"
_LLAMA3: Final = PreTokenizer((_LLAMA3_PATTERN,), ignore_merges=True, add_bos=True)
_DBRX: Final = PreTokenizer((_LLAMA3_PATTERN,))
_QWEN2: Final = PreTokenizer((f"{_CONTRACTIONS}|{_WORDS}|\\p{{N}}|{_SIGNS}|{_BREAKS}",))
_PLAIN_GPT2: Final = PreTokenizer((_GPT2,))
_DIGITS_THEN_GPT2: Final = PreTokenizer((r"\p{N}", _GPT2))
_GPT4O: Final = PreTokenizer((_cased(f"{_CONTRACTIONS}?", r"\p{N}{1,3}"),))
_DEEPSEEK3: Final = PreTokenizer(
    (
        r"\p{N}{1,3}",
        "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        rf"{_PUNCTUATION}|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+"
        rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_BREAKS}",
    )
)

_BY_NAMES: Final[dict[str, PreTokenizer]] = {
    "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    "gpt-2 phi-2 olmo mpt jais exaone4 trillion granite-docling a.x-4.0 mellum": _PLAIN_GPT2,
    "smollm starcoder refact command-r codeshell exaone minerva-7b": _DIGITS_THEN_GPT2,
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2": _LLAMA3,
    "dbrx smaug-bpe glm4 chatglm-bpe": _DBRX,
    "qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez kormo grok-2": _QWEN2,
    "gpt-4o llama4 minimax-m2": _GPT4O,
    "deepseek-v3 hunyuan-dense": _DEEPSEEK3,
    "deepseek-coder": PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}")),
    "falcon": PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")),
    "tekken": PreTokenizer((_cased("", r"\p{N}"),), ignore_merges=True, add_bos=True),
}

PRE_TOKENIZERS: Final[dict[str, PreTokenizer]] = {
    name: pre_tokenizer for names, pre_tokenizer in _BY_NAMES.items() for name in names.split()
}
"""Pre-tokenizers by their names in `tokenizer.ggml.pre`."""
