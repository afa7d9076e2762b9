from hypothesis import given
from hypothesis import strategies as st

from assay.engine.core.stop_strings import StopTexts

TEXT = st.text("ab", max_size=12)


@given(st.lists(TEXT, max_size=8), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_pieces_give_what_the_whole_text_gives(pieces, stops):
    watched = StopTexts(stops)
    shown = "".join([watched.push(piece) for piece in pieces])
    whole = "".join(pieces)
    # The output ends with the piece that completes the first stop text, so the oracle looks at the
    # shortest run of pieces that has one.
    expected = whole
    for count in range(1, len(pieces) + 1):
        begun = "".join(pieces[:count])
        places = [begun.find(stop) for stop in stops if stop in begun]
        if places:
            expected = begun[: min(places)]
            break
    assert watched.found == (expected != whole or any(stop in whole for stop in stops))
    assert shown + watched.flush() == expected


def test_nothing_is_held_back_without_need():
    stops = StopTexts(["<end>"])
    assert stops.push("a < b") == "a < b"
    assert stops.push("<en") == ""
    assert stops.push("try") == "<entry"
