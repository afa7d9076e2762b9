"""Writes tests/data/llama_cpp_tokens.json: texts and their llama.cpp tokens.

Run once, where `llama_cpp` (llama-cpp-python), `gguf` and `tokenizers` are installed, with the path
of SmolLM2's GGUF file: its vocabulary is used with every pre-tokenizer, besides a small
SentencePiece vocabulary.
"""

from __future__ import annotations

import json
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

FIXTURE = Path(__file__).resolve().parent / "llama_cpp_tokens.json"

PRE_TOKENIZERS = ("smollm", "gpt-2", "llama-bpe", "qwen2", "tekken", "default")
TEXTS = (
    "Gravity is the force that",
    "<|im_start|>user\nHi<|im_end|>\n",
    "a  b\n\n c\t",
    "  leading and trailing  ",
    "1234567890 3.14159 2026-11-15",
    "It's they'LL don't we've I'm you'd 'tis",
    "def f(x):\n    return x**2  # square\n",
    "caf\u00e9 \u4f60\u597d\uff0c\u4e16\u754c \u0645\u0631\u062d\u0628\u0627 \u041f\u0440\u0438",
    "\U0001f600\u200d\U0001f4a9 \u00bd \u2167 \u0665",
    "\u00a0\u2003x\u3000y\u200bz",
    "<|endoftext|><repo_name>a/b<file_sep>",
    "e\u0301 na\u00efve co\u00f6perate McDonald HTTPServer",
    "x" * 40,
    "\r\n\r\n  \r\n",
    "$%^&*()_+{}|:<>?~`",
    "https://example.org/?q=a&b=c#d ==",
)
PIECE_TEXTS = (
    "the cat sat on the mat",
    "  the  mat ",
    "cats, mats and hats: 42!",
    "th\u00e9 \u732b sat\n\ton",
    "<s>the<tool>cat</s> sat",
    "",
    "a",
)
CORPUS = "the cat sat on the mat and that hat is on the cat at the mat hats cats mats " * 4

BYTE_TYPE, CONTROL, UNKNOWN, NORMAL, USER_DEFINED = 6, 3, 2, 1, 4


def write_vocabulary(
    path: Path, metadata: dict[str, Any], tokens: list[str], types: list[int], **lists: Any
) -> None:
    """Write a GGUF file with a vocabulary and no tensors."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    for name, values in lists.items():
        writer.add_array(f"tokenizer.ggml.{name}", values)
    add: dict[type, Any] = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string}
    for key, value in metadata.items():
        add[type(value)](f"tokenizer.ggml.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_pieces(path: Path, pieces: dict[str, Any]) -> None:
    """Write a GGUF file with the small SentencePiece vocabulary."""
    write_vocabulary(
        path,
        {"model": "llama", "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0},
        pieces["tokens"],
        pieces["types"],
        scores=pieces["scores"],
    )


def make_pieces() -> dict[str, Any]:
    """Three special tokens, all bytes, then characters and merges of a corpus, scored by rank."""
    words = [list("\u2581" + word) for word in CORPUS.split()]
    merged: list[str] = []
    for _ in range(40):
        pairs: dict[str, int] = {}
        for word in words:
            for left, right in pairwise(word):
                pairs[left + right] = pairs.get(left + right, 0) + 1
        if not pairs:
            break
        best = min(pairs, key=lambda piece: (-pairs[piece], piece))
        merged.append(best)
        for word in words:
            index = 0
            while index < len(word) - 1:
                if word[index] + word[index + 1] == best:
                    word[index : index + 2] = [best]
                index += 1
    characters = sorted(set("\u2581" + CORPUS.replace(" ", "")))
    normal = [*merged, *characters]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "<tool>"]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE_TYPE] * 256, USER_DEFINED]
    return {
        "tokens": [*tokens, *normal],
        "types": types + [NORMAL] * len(normal),
        "scores": [0.0] * len(tokens) + [-float(rank) for rank in range(len(normal))],
    }


def main(smollm2: Path) -> None:
    """Tokenize with llama.cpp and write the file."""
    import gguf
    import llama_cpp

    def tokenize(path: Path, texts: tuple[str, ...]) -> list[dict[str, Any]]:
        model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
        return [
            {"text": text, "tokens": model.tokenize(text.encode(), add_bos=True, special=True)}
            for text in texts
        ]

    fields = gguf.GGUFReader(smollm2).fields
    tokens, types, merges = (
        fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "token_type", "merges")
    )
    model = llama_cpp.Llama(str(smollm2), vocab_only=True, verbose=False)
    vocabulary = llama_cpp.llama_model_get_vocab(model.model)
    found: dict[str, Any] = {
        "made_by": f"llama-cpp-python {llama_cpp.__version__}, tests/data/make_token_fixtures.py",
        "stops": [
            token
            for token in range(model.n_vocab())
            if llama_cpp.llama_vocab_is_eog(vocabulary, token)
        ],
        "pieces": make_pieces(),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocabulary.gguf"
        write_pieces(path, found["pieces"])
        found["piece_tokens"] = tokenize(path, PIECE_TEXTS)
        found["splittings"] = {}
        for name in PRE_TOKENIZERS:
            settings = {"model": "gpt2", "pre": name, "bos_token_id": 1, "eos_token_id": 2}
            write_vocabulary(path, settings, tokens, types, merges=merges)
            found["splittings"][name] = tokenize(path, TEXTS)
    FIXTURE.write_text(json.dumps(found, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
