"""Grammars that constrain an output: which tokens may come next, by the `llguidance` library.

A compiled grammar is kept, and each request has a matcher that is copied from it. Compilation and
masks are bounded by the library's limits; a grammar that exceeds them fails its own request only.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from assay.engine.requests.structured_output import StructuredOutput
from assay.errors import InputError, UnsupportedError
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

    from assay.engine.loading.tokenizer import Tokenizer

MAX_COMPILED: Final = 32
"""Compiled grammars that are kept; the least recently used one is dropped first."""

LIMITS: Final[dict[str, Any]] = {
    "step_lexer_fuel": 50_000,
    "step_max_items": 20_000,
    "max_lexer_states": 20_000,
}
"""Bounds of the library on the time and memory of one mask, below its own."""

MAX_MASK_SECONDS: Final = 1.0
"""A grammar whose mask takes longer fails its request: all requests of the step wait for it."""


class GrammarCompiler:
    """Compiles constraints for the vocabulary of one model; threads may share it."""

    def __init__(self, tokenizer: Tokenizer, vocabulary: int) -> None:
        """Compile for a tokenizer whose model has logits of `vocabulary` tokens."""
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._library: Any = None
        self._compiled: OrderedDict[StructuredOutput, Any] = OrderedDict()
        self._lock = threading.Lock()

    def matcher(self, constraint: StructuredOutput) -> GrammarMatcher:
        """A matcher at the start of an output; raises if the constraint does not compile."""
        with self._lock:
            if self._library is None:
                self._library = _library_tokenizer(self._tokenizer, self._vocabulary)
            compiled = self._compiled.get(constraint)
            if compiled is not None:
                self._compiled.move_to_end(constraint)
        if compiled is None:
            compiled = _compile(self._library, constraint)
            with self._lock:
                self._compiled[constraint] = compiled
                if len(self._compiled) > MAX_COMPILED:
                    self._compiled.popitem(last=False)
        words = -(-int(self._library.vocab_size) // 32)
        return GrammarMatcher(compiled.deep_copy(), words, self._tokenizer, constraint.after)


class GrammarMatcher:
    """Where one output is in its grammar."""

    def __init__(self, matcher: Any, words: int, tokenizer: Tokenizer, after: str | None) -> None:
        """Start; with `after` the constraint begins once the output contains that text.

        The library's masks have so many words.
        """
        self._matcher = matcher
        self._words = words
        self._tokenizer = tokenizer
        self._after = (after or "").encode()
        self._tail: bytes | None = b"" if after else None
        """The end of the output while the constraint waits for its beginning; None afterward."""
        self.error: InputError | None = None
        """Why the grammar cannot go on, if it cannot."""

    @property
    def finished(self) -> bool:
        """Whether the grammar allows nothing more."""
        return self._tail is None and self.error is None and bool(self._matcher.is_stopped())

    @property
    def in_library(self) -> Any:
        """The library's own matcher."""
        return self._matcher

    def fills(self, words: int) -> bool:
        """Whether the library alone writes the mask of the next token to a row of so many words."""
        return self._tail is None and words == self._words

    def accept(self, token: int) -> None:
        """Advance by a token of the output."""
        if self._tail is not None:
            self._tail = self._waited(self._tail, token)
        elif not self._matcher.consume_token(token):
            self._fail(self._matcher.get_error())

    def count_allowed(self, tokens: Sequence[int]) -> int:
        """How many of the tokens, from the first on, the grammar allows one after the other."""
        tail, index = self._tail, 0
        while tail is not None and index < len(tokens):
            tail = self._waited(tail, tokens[index])
            index += 1
        rest = list(tokens[index:])
        return index + (int(self._matcher.validate_tokens(rest)) if rest else 0)

    def fill_masks(self, rows: npt.NDArray[np.int32], draft_tokens: Sequence[int]) -> None:
        """Set the bits of allowed tokens and clear the others: of the next one, then after each draft.

        The grammar must allow the draft tokens.
        """
        tail, consumed = self._tail, 0
        for index, row in enumerate(rows):
            row[:] = -1
            if tail is None and not self._write_mask(row):
                return
            if index == len(draft_tokens):
                break
            if tail is not None:
                tail = self._waited(tail, draft_tokens[index])
            elif self._matcher.consume_token(draft_tokens[index]):
                consumed += 1
        if consumed and not self._matcher.rollback(consumed):
            self._fail(self._matcher.get_error())

    def check(self) -> bool:
        """Whether the grammar can go on after the masks that the library computed; else it has failed."""
        if self._matcher.is_error():
            self._fail(self._matcher.get_error())
            return False
        return True

    def _write_mask(self, row: npt.NDArray[np.int32]) -> bool:
        # A tokenizer may have other tokens than the model has logits: those have no bit, or no use.
        mask = row if row.size == self._words else np.empty(self._words, np.int32)
        start = time.perf_counter()
        self._matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
        seconds = time.perf_counter() - start
        if not self.check():
            return False
        if seconds > MAX_MASK_SECONDS:
            self._fail(f"one whose mask took {seconds:.1f} s")
            return False
        if mask is not row:
            row[:] = 0
            shared = min(row.size, mask.size)
            row[:shared] = mask[:shared]
        return True

    def _waited(self, tail: bytes, token: int) -> bytes | None:
        """The end of the output after another token; None once the awaited text is in it."""
        tail += self._tokenizer.piece(token)
        if self._after in tail:
            return None
        return tail[-len(self._after) + 1 :] if len(self._after) > 1 else b""

    def _fail(self, reason: str) -> None:
        self.error = InputError(
            f"structured output: expected a grammar that can go on, got: {in_one_line(reason)}",
            "simplify the schema or grammar",
        )


def in_one_line(text: str) -> str:
    """An error of the library in one line, without its drawing of the place in the grammar."""
    lines = text.strip().splitlines() or [""]
    said = [lines[0], *(line for line in lines[1:] if line.startswith("error:"))]
    line = " ".join(said)
    return line if len(line) <= 300 else line[:300] + "..."


def _library_tokenizer(tokenizer: Tokenizer, vocabulary: int) -> Any:
    try:
        from llguidance import LLTokenizer, TokenizerWrapper
    except ImportError:
        raise UnsupportedError(
            "structured output: expected the package llguidance, got none installed",
            "install it with: pip install 'assay[serve]'",
        ) from None
    ends = sorted(tokenizer.stop_ids)
    if not ends:
        raise UnsupportedError(
            f"{tokenizer.source}: expected an end-of-sequence token for structured output, got none"
        )
    return LLTokenizer(TokenizerWrapper(_Pieces(tokenizer)), n_vocab=vocabulary, eos_token=ends)


class _Pieces:
    """What the library reads of a tokenizer: the bytes of each token."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        count = tokenizer.vocab_size
        self.tokens = [tokenizer.piece(token) for token in range(count)]
        self.special_token_ids = [token for token in range(count) if tokenizer.is_special(token)]
        self.bos_token_id = tokenizer.bos_id
        self.eos_token_id = min(tokenizer.stop_ids)
        self._tokenizer = tokenizer

    def __call__(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special=False)


def _compile(library: Any, constraint: StructuredOutput) -> Any:
    """The matcher that others are copied from."""
    from llguidance import LLMatcher, LLParserLimits

    try:
        grammar = _grammar_text(constraint)
    except ValueError as error:
        raise _refusal(constraint, str(error)) from None
    limits = LLParserLimits(verbose_errors=False, **LIMITS)
    matcher = LLMatcher(library, grammar, log_level=0, limits=limits)
    if not matcher.is_error():
        # A grammar without any text is found by its first mask.
        matcher.compute_bitmask()
    if matcher.is_error():
        raise _refusal(constraint, matcher.get_error())
    return matcher


def _grammar_text(constraint: StructuredOutput) -> str:
    """The constraint in the library's own syntax."""
    from llguidance import LLMatcher, grammar_from

    grammar: str
    if constraint.kind == "json":
        options: Any = {"whitespace_flexible": False}
        if constraint.whitespace:
            options = {"whitespace_pattern": constraint.whitespace}
        grammar = LLMatcher.grammar_from_json_schema(constraint.text, options)
    elif constraint.kind == "choice":
        texts = (json.dumps(text) for text in json.loads(constraint.text))
        grammar = LLMatcher.grammar_from_lark("start: " + " | ".join(texts))
    else:
        grammar = grammar_from(constraint.kind, constraint.text)
    return grammar


def _refusal(constraint: StructuredOutput, reason: str) -> InputError:
    names = {"json": "a JSON schema", "regex": "a regular expression", "choice": "choices"}
    expected = names.get(constraint.kind, "a grammar")
    return InputError(
        f"structured output: expected {expected} that can be compiled, got: {in_one_line(reason)}"
    )
