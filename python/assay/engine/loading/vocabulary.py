"""The vocabulary of a tokenizer, and the `tokenizers` library's object for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from assay.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    import tokenizers


class Vocabulary(Protocol):
    """Token texts by ID, and the encoder over them."""

    size: int
    added: dict[int, tuple[str, bool]]
    """Tokens that are matched before pre-tokenization: text, and whether it is special."""
    byte_level: bool
    """Whether token texts are bytes in GPT-2's alphabet."""
    strips_space: bool
    """Whether decoding strips a leading space."""
    word_suffix: str | None
    """How tokens begin that continue a word (WordPiece); other tokens then follow a space."""

    def text_of(self, token: int) -> str | None:
        """The text of a token in the vocabulary, or None."""

    def encoder(self, texts: Sequence[str]) -> tokenizers.Tokenizer:
        """A tokenizer of the library that encodes these texts."""

    def build(self) -> None:
        """Build the full vocabulary now."""


class LibraryVocabulary:
    """The vocabulary of a tokenizer of the library."""

    def __init__(self, library: tokenizers.Tokenizer, source: str) -> None:
        """Wrap a tokenizer; `source` names its file in errors."""
        self._library = library
        self.size: int = library.get_vocab_size(with_added_tokens=True)
        self.added = {
            token: (one.content, one.special)
            for token, one in library.get_added_tokens_decoder().items()
        }
        self.byte_level, self.strips_space, self.word_suffix = _decoder_kind(library, source)

    def text_of(self, token: int) -> str | None:
        """The text of a token in the vocabulary, or None."""
        return self._library.id_to_token(token) if 0 <= token < 1 << 32 else None

    def encoder(self, texts: Sequence[str]) -> tokenizers.Tokenizer:
        """The tokenizer."""
        return self._library

    def build(self) -> None:
        """Nothing to do: it is built."""


def read_library(path: Path) -> tokenizers.Tokenizer:
    """The tokenizer of a `tokenizer.json`."""
    import tokenizers

    if not path.is_file():
        raise InputError(
            f"{path}: expected a file, got none",
            "only tokenizers saved for the tokenizers library are read",
        )
    with library_errors(f"{path}: expected a tokenizer"):
        library = tokenizers.Tokenizer.from_file(str(path))
        # The file may set these for training batches; prompts are neither truncated nor padded.
        library.no_truncation()
        library.no_padding()
    return library


@contextmanager
def library_errors(expected: str) -> Iterator[None]:
    """Re-raise the library's errors and panics as `InputError`."""
    try:
        yield
    except Exception as error:  # The library raises the base class itself.
        raise InputError(f"{expected}, got: {error}") from None
    except BaseException as error:
        # PyO3 has no other way to tell a panic from an interrupt.
        if type(error).__name__ != "PanicException":
            raise
        raise InputError(f"{expected}, got one that the library panics on: {error}") from None


def _decoder_kind(library: tokenizers.Tokenizer, source: str) -> tuple[bool, bool, str | None]:
    """Whether texts are byte-level, whether decoding strips a space, and WordPiece's prefix."""
    state = json.loads(library.decoder.__getstate__()) if library.decoder else {}
    steps = state.get("decoders", [state])
    kinds = [step.get("type") for step in steps]
    if "ByteLevel" in kinds:
        return True, False, None
    if "ByteFallback" in kinds or "Metaspace" in kinds:
        strips = any(
            (step.get("type") == "Strip" and step.get("start"))
            or (step.get("type") == "Metaspace" and step.get("prepend_scheme") != "never")
            for step in steps
        )
        return False, strips, None
    if kinds == ["WordPiece"]:
        return False, True, str(steps[0].get("prefix", "##"))
    raise UnsupportedError(
        f"{source}: expected a decoder of bytes, SentencePiece or WordPiece pieces, got {kinds}"
    )
