"""Admission: requests wait; they are refused where the queue itself would not fit."""

import resource

import pytest

from assay.engine.core import admission
from assay.engine.core.admission import Admission, OverloadedError, QueueLimits


def test_a_queue_without_limits_takes_what_comes() -> None:
    admitted = Admission(QueueLimits())
    names = admitted.admit([1_000] * 5_000)
    assert len(set(names)) == len(admitted.unfinished) == 5_000


def test_requests_are_counted_until_they_finish() -> None:
    admitted = Admission(QueueLimits(requests=3))
    first = admitted.admit([1, 1])
    with pytest.raises(OverloadedError, match="2 requests are under way and 2 more were submitted"):
        admitted.admit([1, 1])
    admitted.forget(first[:1])
    # A second end of the same request frees nothing.
    admitted.forget(first[:1])
    assert len(admitted.admit([1, 1])) == 2
    with pytest.raises(OverloadedError, match="at most 3 are accepted"):
        admitted.admit([1])


def test_prompts_are_counted_by_their_tokens() -> None:
    admitted = Admission(QueueLimits(tokens=100))
    [name, _] = admitted.admit([60, 30])
    with pytest.raises(OverloadedError, match="prompts of 90 tokens are under way and 11 more"):
        admitted.admit([11])
    admitted.forget([name])
    admitted.admit([70])


def test_limits_of_a_host_follow_open_files_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 36 << 10}
    monkeypatch.setattr(admission.os, "sysconf", pages.__getitem__)
    monkeypatch.setattr(admission.resource, "getrlimit", lambda _: (1024, 4096))
    # A quarter of 144 MiB in tokens of 36 bytes is 2^20.
    assert QueueLimits.of_host() == QueueLimits(4096 - 128, 1 << 20)
    assert QueueLimits.of_host(7) == QueueLimits(7, 1 << 20)
    infinite = resource.RLIM_INFINITY
    monkeypatch.setattr(admission.resource, "getrlimit", lambda _: (1024, infinite))
    assert QueueLimits.of_host().requests is None
