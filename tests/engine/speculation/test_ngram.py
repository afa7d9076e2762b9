from hypothesis import given, strategies as st

from assay.engine.speculation.ngram import MAX_NGRAM, PromptLookup


def last_occurrence(tokens, count):
    """The same draft tokens by searching the whole text."""
    for length in range(min(MAX_NGRAM, len(tokens)), 0, -1):
        ngram = tokens[-length:]
        for end in range(len(tokens) - 1, length - 1, -1):
            if tokens[end - length : end] == ngram:
                return tokens[end : end + count]
    return []


@given(
    st.lists(st.integers(0, 3), max_size=30),
    st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=4),
    st.integers(1, 6),
)
def test_drafts_follow_the_last_occurrence_of_the_longest_ngram(prompt, added, count):
    lookup = PromptLookup(prompt)
    tokens = list(prompt)
    for part in added:
        lookup.extend(part)
        tokens += part
    assert lookup.propose(count) == last_occurrence(tokens, count)
