"""Two minutes of the soak that `serving_soak.py` runs for as long as one likes."""

import pytest
from serving_soak import Report, soak


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--http-process", "--no-http-process"])
def test_no_request_is_lost_at_80_percent_of_the_load(option: str) -> None:
    report = soak("synthetic", 60.0, ["--device", "cpu", option])
    # Arenas of the allocator still grow in the first minutes.
    verdict = report.verdict(most_growth=0.1)
    assert verdict["wrong"] == []
    assert verdict["sent"] == verdict["answered"] + verdict["aborted"]
    assert min(verdict["aborted"], verdict["adapter loads"], verdict["sleeps"]) > 0
    assert verdict["growth"] is not None


def test_memory_that_grows_is_told_from_caches_that_fill() -> None:
    filling = Report(memory=[(float(at), 100 + min(at, 20)) for at in range(100)])
    assert filling.verdict()["wrong"] == []
    leaking = Report(memory=[(float(at), 100 + at) for at in range(100)])
    assert leaking.verdict()["wrong"] == ["memory grew by 36.5%"]
    assert Report(memory=[(0.0, 1), (1.0, 9)]).growth() is None
