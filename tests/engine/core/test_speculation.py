from hypothesis import given
from hypothesis import strategies as st

from assay.engine.core.speculation import LONGEST, PromptLookup


def last_occurrence(tokens, count):
    """The same guess by searching the whole text."""
    for length in range(min(LONGEST, len(tokens)), 0, -1):
        run = tokens[-length:]
        for end in range(len(tokens) - 1, length - 1, -1):
            if tokens[end - length : end] == run:
                return tokens[end : end + count]
    return []


@given(
    st.lists(st.integers(0, 3), max_size=30),
    st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=4),
    st.integers(1, 6),
)
def test_the_guess_is_what_followed_the_longest_run_last(prompt, added, count):
    lookup = PromptLookup(prompt)
    tokens = list(prompt)
    for part in added:
        lookup.extend(part)
        tokens += part
    assert lookup.guess(count) == last_occurrence(tokens, count)
