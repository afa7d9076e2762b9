"""The suite `load`: its server keeps its schedule, its check can fail, its verdict says what was found."""

from __future__ import annotations

from typing import Any

import pytest
from load_windows import run_window

from assay.bench.harness.case import Absent, Settings
from assay.bench.rivals import vllm_client
from assay.bench.suites import load
from assay.load.workloads.workload import PlannedRequest, Window, Workload
from assay.runtime.hardware import Device


def test_the_server_keeps_its_schedule() -> None:
    server = load._Server(0.1, 0.02)
    workload = Workload("w", "", (PlannedRequest(0, "a b c", 11),), "closed", 1)
    found = run_window(server.url, workload, Window(requests=3))
    assert found.errors == 0
    for one in found.records:
        assert (one.prompt_tokens, one.output_tokens) == (3, 11)
        assert 0.1 <= (one.first_token_s or 0.0) - one.sent_s < 0.4
        assert one.end_s - one.sent_s >= 0.3


def test_missing_tokens_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "is_installed", lambda: False)
    cases = load.cases(Settings(Device("cpu"), quick=True))
    assert [case.unit for case in cases] == ["tok/s", "us", "tok/s", "requests/s"]
    prepared = cases[2].prepare()
    (rival,) = prepared.rivals
    assert isinstance(rival, Absent)
    assert prepared.check.error(0) == 0.0
    block: Any = cases[2].prepare.args[0]  # type: ignore[attr-defined]
    block.tokens += 1
    assert prepared.check.error(0) > 0.01


class _Figure:
    """As much of a figure as the verdict reads."""

    def __init__(self, ratios: list[float]) -> None:
        self.rivals = ["rival"] if ratios else []
        self._ratios = ratios

    def paired(self, _: object) -> list[float]:
        return self._ratios


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([1.002, 1.004, 1.006], "1.0040, bar within 1%: met"),
        ([0.98, 0.97, 0.99], "0.9800, bar within 1%: MISSED"),
        ([1.2, 1.1, 1.3], "above it, vllm bench serve was the limit itself"),
        ([], "not measured"),
    ],
)
def test_verdicts(ratios: list[float], expected: str) -> None:
    assert expected in load.beside(_Figure(ratios))  # type: ignore[arg-type]


def test_vllm_is_asked_for_without_being_imported() -> None:
    import sys

    assert vllm_client.is_installed() in (True, False)
    assert "vllm" not in sys.modules
