"""Two minutes of the soak that `serving_soak.py` runs for as long as one likes."""

import pytest
from serving_soak import Report, growth, slope_mib_per_hour, soak, verdict_line


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
    assert growth([(0.0, 1), (1.0, 9)]) is None
    leaking = Report(device_memory=[(float(at), 100 + at) for at in range(100)])
    assert leaking.verdict()["wrong"] == ["device memory grew by 36.5%"]


def test_the_verdict_is_one_line() -> None:
    grows = [(float(at), (1000 << 20) + at * 2912) for at in range(100)]
    # 2,912 bytes a second are ten MiB an hour.
    assert slope_mib_per_hour(grows) == pytest.approx(10.0, rel=1e-3)
    report = Report(memory=grows, lost=1, wrong=["lost: ReadError: "])
    report.done.update({"sent": 1234, "aborted": 5, "adapter loads": 6, "sleeps": 7})
    assert verdict_line(report.verdict(), 100.0) == (
        "soak FAILED: 1,234 requests sent in 100 s, 1 lost, 0 with other tokens than the quiet run, "
        "5 aborted, 0 held back, 6 adapter loads, 7 sleeps, memory +0.0% (+10.0 MiB an hour)"
    )
