from hypothesis import given, strategies as st

from assay.engine.requests.output_text import StopStrings

TEXT = st.text("ab", max_size=12)


@given(st.lists(TEXT, max_size=8), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_streamed_text_ends_at_the_first_stop_string(pieces, stops):
    stop_strings = StopStrings(stops)
    shown = "".join([stop_strings.push(piece) for piece in pieces])
    whole = "".join(pieces)
    # The output ends with the piece that completes the first stop string, so the oracle looks at
    # the fewest pieces that contain one.
    expected = whole
    for count in range(1, len(pieces) + 1):
        prefix = "".join(pieces[:count])
        found = [prefix.find(stop) for stop in stops if stop in prefix]
        if found:
            expected = prefix[: min(found)]
            break
    assert stop_strings.found == (expected != whole or any(stop in whole for stop in stops))
    assert shown + stop_strings.flush() == expected


def test_only_text_that_may_start_a_stop_string_is_held_back():
    stops = StopStrings(["<end>"])
    assert stops.push("a < b") == "a < b"
    assert stops.push("<en") == ""
    assert stops.push("try") == "<entry"
