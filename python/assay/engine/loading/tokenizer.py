"""Tokenization and detokenization over the `tokenizers` library."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from assay.engine.loading.vocabulary import Vocabulary, library_errors
from assay.errors import InputError

_BYTE_TOKEN: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPACE: Final = "\u2581"
"""The character for a space in SentencePiece tokens."""


def byte_alphabet() -> list[str]:
    """The character of each byte in byte-level vocabularies (GPT-2's table).

    Printable Latin-1 bytes map to themselves, the others in order to the characters from 256 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in table)
    table.update((byte, chr(256 + index)) for index, byte in enumerate(others))
    return [table[byte] for byte in range(256)]


class Tokenizer:
    """Encodes text, decodes tokens, and knows which tokens begin and end a sequence.

    `bos_id` is prepended and `eos_id` appended where the model's files say so (`add_bos`,
    `add_eos`); any of `stop_ids` ends a generation. Special tokens in a text are recognized, as in
    `transformers` and llama.cpp; untrusted text must be cleared of them first.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        bos_id: int | None,
        eos_id: int | None,
        stop_ids: Iterable[int],
        add_bos: bool,
        add_eos: bool = False,
        source: str,
    ) -> None:
        self._vocabulary = vocabulary
        self.vocab_size = vocabulary.size
        self.bos_id, self.eos_id = bos_id, eos_id
        self.add_bos, self.add_eos = add_bos, add_eos
        self.stop_ids = frozenset(stop_ids)
        self.source = source
        for name, one in (("bos", bos_id), ("eos", eos_id), *(("stop", i) for i in self.stop_ids)):
            if one is not None and vocabulary.text_of(one) is None:
                raise InputError(
                    f"{source}: expected a {name} token below {self.vocab_size}, got {one}"
                )
        for name, added, id_ in (("bos", add_bos, bos_id), ("eos", add_eos, eos_id)):
            if added and id_ is None:
                raise InputError(f"{source}: expected a {name} token to add, got none")
        self._added = vocabulary.added
        self._byte_of = {char: byte for byte, char in enumerate(byte_alphabet())}
        self._pieces: dict[int, bytes] = {}
        self._whole_texts: dict[bool, dict[int, str]] = {False: {}, True: {}}

    @property
    def special_texts(self) -> Mapping[str, str]:
        """The texts of the BOS and EOS tokens, under the names of chat templates."""
        named = {"bos_token": self.bos_id, "eos_token": self.eos_id}
        return {name: self.text_of(id_) for name, id_ in named.items() if id_ is not None}

    @property
    def special_tokens(self) -> frozenset[str]:
        """The texts of all special tokens."""
        return frozenset(text for text, is_special in self._added.values() if is_special)

    def text_of(self, token: int) -> str:
        """The text of a token in the vocabulary."""
        text = self._vocabulary.text_of(token)
        if text is None:
            raise InputError(
                f"{self.source}: expected a token from 0 to {self.vocab_size - 1}, got {token}"
            )
        return text

    def is_special(self, token: int) -> bool:
        """Whether a token is a special token (BOS, EOS, a role marker) and not text."""
        return token in self._added and self._added[token][1]

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """The token IDs of a text; `add_special` adds BOS and EOS where the model's files say so."""
        return self.encode_batch([text], add_special=add_special)[0]

    def encode_batch(self, texts: Sequence[str], *, add_special: bool = True) -> list[list[int]]:
        """The token IDs of many texts, encoded in parallel."""
        for text in texts:
            _check_encodable(text)
        library = self._vocabulary.encoder(texts)
        with library_errors(f"{self.source}: expected a tokenizer that takes the text"):
            if len(texts) == 1:
                encoded = [library.encode(texts[0], add_special_tokens=False)]
            else:
                encoded = library.encode_batch(list(texts), add_special_tokens=False)
        return [self._with_special(one.ids) if add_special else one.ids for one in encoded]

    def build(self) -> None:
        """Build the full vocabulary now; otherwise the first long or second text builds it."""
        self._vocabulary.build()

    def _with_special(self, tokens: list[int]) -> list[int]:
        prefix = [self.bos_id] if self.add_bos and self.bos_id is not None else []
        suffix = [self.eos_id] if self.add_eos and self.eos_id is not None else []
        return [*prefix, *tokens, *suffix]

    def piece(self, token: int) -> bytes:
        """The bytes of a token; for a special token, its text."""
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self._piece(token)
        return piece

    def _piece(self, token: int) -> bytes:
        if token in self._added:
            return self._added[token][0].encode()
        text = self.text_of(token)
        if self._vocabulary.byte_level:
            if all(char in self._byte_of for char in text):
                return bytes(self._byte_of[char] for char in text)
            return text.encode()
        if (suffix := self._vocabulary.word_suffix) is not None:
            continues = text.startswith(suffix)
            return (text.removeprefix(suffix) if continues else f" {text}").encode()
        if matched := _BYTE_TOKEN.fullmatch(text):
            return bytes([int(matched[1], 16)])
        return text.replace(SPACE, " ").encode()

    def decode(self, tokens: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of tokens; invalid UTF-8 becomes the replacement character."""
        data = b"".join(
            self.piece(token) for token in tokens if not (skip_special and self.is_special(token))
        )
        # SentencePiece adds a space before the first word and strips it when decoding.
        if self._vocabulary.strips_space and data.startswith(b" "):
            data = data[1:]
        return data.decode("utf-8", "replace")

    def whole_texts(self, *, skip_special: bool) -> dict[int, str]:
        """The texts of tokens that are whole characters, as detokenizers have met them so far."""
        return self._whole_texts[skip_special]

    def detokenizer(self, *, skip_special: bool = True) -> Detokenizer:
        """A new detokenizer for one output."""
        return Detokenizer(self, skip_special)


def _check_encodable(text: str) -> None:
    """Refuse what is not Unicode, such as bytes of a command line that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"text: expected Unicode, got {text[error.start]!a} at character {error.start + 1}",
            "a part of it is not UTF-8",
        ) from None


class Detokenizer:
    """Incremental detokenizer of one output; it never emits part of a character.

    The results of `push` and then `finish`, concatenated, are the text of the tokens.
    """

    def __init__(self, tokenizer: Tokenizer, skip_special: bool) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_inside = False
        """Whether the tokens so far end inside a character."""
        self._whole = tokenizer.whole_texts(skip_special=skip_special)

    def push(self, token: int) -> str:
        """The text that this token completes; empty while a character is incomplete."""
        # Most tokens are whole characters: their text is looked up, for every sequence of every step.
        if not self._is_inside and (text := self._whole.get(token)) is not None:
            return text
        return self._decode(token)

    def _decode(self, token: int) -> str:
        is_skipped = self._skip_special and self._tokenizer.is_special(token)
        began_inside = self._is_inside
        text = "" if is_skipped else self._decoder.decode(self._tokenizer.piece(token))
        self._is_inside = bool(self._decoder.getstate()[0])
        if not (began_inside or self._is_inside):
            self._whole[token] = text
        return text

    def finish(self) -> str:
        """The replacement character, if the tokens end inside a character."""
        return self._decoder.decode(b"", final=True)
