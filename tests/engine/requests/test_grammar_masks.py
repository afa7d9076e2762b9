"""Masks of many outputs at once are those of each output alone."""

import numpy as np
import pytest

from assay.engine import StructuredOutput
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.requests import grammar_masks
from assay.engine.requests.grammar import GrammarCompiler
from assay.engine.requests.grammar_masks import TIMED_STEPS, GrammarMasks

CONSTRAINTS = [
    StructuredOutput.json_object(),
    StructuredOutput.regex("[a-f]{3,9}"),
    StructuredOutput.choices(["yes", "no"]),
    StructuredOutput("regex", "[0-9]{5}", after="x"),
]
VOCABULARY = 258
WORDS = -(-VOCABULARY // 32)


@pytest.fixture(scope="module")
def compiler():
    return GrammarCompiler(synthetic_model("llama").tokenizer, VOCABULARY)


def alone(matcher) -> np.ndarray:
    row = np.zeros((1, WORDS), np.int32)
    matcher.fill_masks(row, ())
    return row[0]


def test_masks_together_are_those_of_each_alone(compiler):
    outputs = [compiler.matcher(constraint) for constraint in CONSTRAINTS * 3]
    # Rows between those of the outputs are not touched.
    masks = np.full((2 * len(outputs), WORDS), 7, np.int32)
    together = GrammarMasks()
    for _ in range(3):
        together.fill([(one, 2 * row) for row, one in enumerate(outputs)], masks)
        assert (masks[1::2] == 7).all()
        for row, one in enumerate(outputs):
            np.testing.assert_array_equal(masks[2 * row], alone(one))
            bits = np.unpackbits(masks[2 * row].view(np.uint8), bitorder="little")
            one.accept(int(np.flatnonzero(bits[:VOCABULARY])[0]))


def test_rows_wider_than_the_tokenizer_allow_none_of_the_tokens_that_it_lacks(compiler):
    outputs = [compiler.matcher(StructuredOutput.regex("[ab]{9}")) for _ in range(2)]
    masks = np.full((2, WORDS + 2), -1, np.int32)
    GrammarMasks().fill([(one, row) for row, one in enumerate(outputs)], masks)
    for row, one in enumerate(outputs):
        np.testing.assert_array_equal(masks[row, :WORDS], alone(one))
    assert not masks[:, WORDS:].any()


def test_a_grammar_that_cannot_go_on_fails_alone(compiler):
    good = compiler.matcher(StructuredOutput.regex("[ab]{9}"))
    bad = compiler.matcher(StructuredOutput.regex("[ab]{9}"))
    bad.in_library.consume_token(ord("z"))
    masks = np.zeros((2, WORDS), np.int32)
    GrammarMasks().fill([(bad, 0), (good, 1)], masks)
    assert bad.error is not None
    assert good.error is None
    np.testing.assert_array_equal(masks[1], alone(good))


def test_after_masks_that_took_too_long_together_each_is_timed(compiler, monkeypatch):
    outputs = [(compiler.matcher(StructuredOutput.regex("[ab]{9}")), row) for row in range(2)]
    masks = np.zeros((2, WORDS), np.int32)
    calls = []

    class Watched:
        def unsafe_compute_mask_ptr(self, pairs, *where):
            calls.append(len(pairs))

    monkeypatch.setattr(grammar_masks, "_executor", Watched)
    monkeypatch.setattr(grammar_masks, "MAX_MASK_SECONDS", -1.0)
    filling = GrammarMasks()
    filling.fill(outputs, masks)
    assert calls == [2]
    monkeypatch.setattr(grammar_masks, "MAX_MASK_SECONDS", 60.0)
    for _ in range(TIMED_STEPS):
        filling.fill(outputs, masks)
        np.testing.assert_array_equal(masks[0], alone(outputs[0][0]))
    assert calls == [2]
    filling.fill(outputs, masks)
    assert calls == [2, 2]
