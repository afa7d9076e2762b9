"""`--sizes`, `--dtypes` and `--case`."""

import pytest

from assay.bench.harness import selection
from assay.bench.harness.case import Case, PreparedCase, Suite
from assay.errors import AssayError

SUITE = Suite("toy", lambda _: [], dtypes=("f32", "q4_1"), axes=(1, 3), size_meaning="n or MxKxN")
PLAIN = Suite("plain", lambda _: [])


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (None, ()),
        ("512", ((512,),)),
        ("512,1k,512", ((512,), (1024,))),
        ("1k,2M", ((1024,), (2 << 20,))),
        ("64KiB", ((65536,),)),
        ("1x2x3, 4", ((1, 2, 3), (4,))),
        ("1Gx1x1", ((1 << 30, 1, 1),)),
    ],
)
def test_sizes(text: str | None, sizes: tuple[tuple[int, ...], ...]) -> None:
    assert selection.sizes(SUITE, text) == sizes


@pytest.mark.parametrize(
    "text",
    ["", "0", "-1", "1x2", "1x2x3x4", "big", "1.5", "512,", "1e3", "9999G", "1x0x3", "\u0661"],
)
def test_invalid_sizes_raise(text: str) -> None:
    with pytest.raises(AssayError, match="the suite toy takes sizes as n or MxKxN, got '"):
        selection.sizes(SUITE, text)


def test_dtypes() -> None:
    assert selection.dtypes(SUITE, None) == ()
    assert selection.dtypes(SUITE, "Q4_1, f32,q4_1") == ("q4_1", "f32")
    with pytest.raises(AssayError, match='unknown dtype of the suite toy "q4_2"'):
        selection.dtypes(SUITE, "q4_2")


def test_suite_without_choices_raises() -> None:
    with pytest.raises(AssayError, match="the suite plain has no sizes to choose"):
        selection.sizes(PLAIN, "1")
    with pytest.raises(AssayError, match="the suite plain has no dtypes to choose"):
        selection.dtypes(PLAIN, "f32")


def test_cases_are_chosen_by_parts_of_their_names() -> None:
    def prepare() -> PreparedCase:
        raise AssertionError("choosing cases prepares none")

    cases = [Case(name, "ms", prepare) for name in ("batch 1, short", "batch 8, short", "start")]
    assert selection.cases(cases, ()) == cases
    assert selection.cases(cases, ["batch 8", "start"]) == cases[1:]
    with pytest.raises(AssayError, match='unknown case "batch 2"'):
        selection.cases(cases, ["batch 2"])
