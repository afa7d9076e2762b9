"""The pieces that a tokenizer knows, and the `tokenizers` library's own object over them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from assay.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    import tokenizers


class Vocabulary(Protocol):
    """Pieces by number, and what cuts texts into them."""

    size: int
    added: dict[int, tuple[str, bool]]
    """Tokens found in a text as they are, before it is cut, and whether each is a special one."""
    byte_level: bool
    """Whether pieces are bytes, written in GPT-2's alphabet."""
    strips_space: bool
    """Whether a space at the beginning of a text is not part of it."""

    def text_of(self, token: int) -> str | None:
        """A token as the vocabulary writes it, if there is one."""

    def encoder(self, texts: Sequence[str]) -> tokenizers.Tokenizer:
        """What cuts these texts."""

    def build(self) -> None:
        """Make ready for any text, now rather than at the next one."""


class WholeVocabulary:
    """A library's tokenizer as it is."""

    def __init__(self, library: tokenizers.Tokenizer, source: str) -> None:
        """Look at a tokenizer; `source` names its file in errors."""
        self._library = library
        self.size: int = library.get_vocab_size(with_added_tokens=True)
        self.added = {
            token: (one.content, one.special)
            for token, one in library.get_added_tokens_decoder().items()
        }
        self.byte_level, self.strips_space = _decoder_kind(library, source)

    def text_of(self, token: int) -> str | None:
        """A token as the vocabulary writes it, if there is one."""
        return self._library.id_to_token(token) if 0 <= token < 1 << 32 else None

    def encoder(self, texts: Sequence[str]) -> tokenizers.Tokenizer:
        """The tokenizer, whatever the texts are."""
        return self._library

    def build(self) -> None:
        """There is nothing left to make."""


@contextmanager
def library_errors(expected: str) -> Iterator[None]:
    """Have what the library raises, and its panics, say what was expected of the input."""
    try:
        yield
    except Exception as error:  # The library raises the base class itself.
        raise InputError(f"{expected}, got: {error}") from None
    except BaseException as error:
        # PyO3 gives no other way to tell a panic from an interrupt.
        if type(error).__name__ != "PanicException":
            raise
        raise InputError(f"{expected}, got one that the library panics on: {error}") from None


def _decoder_kind(library: tokenizers.Tokenizer, source: str) -> tuple[bool, bool]:
    """Whether pieces are bytes in GPT-2's alphabet, and whether a first space is taken away."""
    state = json.loads(library.decoder.__getstate__()) if library.decoder else {}
    steps = state.get("decoders", [state])
    kinds = [step.get("type") for step in steps]
    if "ByteLevel" in kinds:
        return True, False
    if "ByteFallback" in kinds or "Metaspace" in kinds:
        strips = any(
            (step.get("type") == "Strip" and step.get("start"))
            or (step.get("type") == "Metaspace" and step.get("prepend_scheme") != "never")
            for step in steps
        )
        return False, strips
    raise UnsupportedError(
        f"{source}: expected a decoder of bytes or SentencePiece pieces, got {kinds}"
    )
