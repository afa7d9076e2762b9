"""Where a run computes."""

from typing import Any

import pytest

from assay.engine import Engine
from assay.errors import InputError
from assay.improve.loop.progress import Silent
from assay.runs.subject import _workload, opened
from assay.runs.subject_options import SubjectOptions


class _Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class _LoadedError(Exception):
    pass


@pytest.mark.parametrize(
    ("gpus", "given", "device", "notes"),
    [
        (
            ("cuda:0", "cuda:1"),
            None,
            "cuda:0",
            ["computing on cuda:0; --device cpu computes on the CPU"],
        ),
        ((), None, "cpu", []),
        (("cuda:0",), "cpu", "cpu", []),
        (("cuda:0",), "auto", "auto", []),
    ],
)
def test_a_run_computes_on_the_gpu_unless_told_otherwise(
    gpus: tuple[str, ...],
    given: str | None,
    device: str,
    notes: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def load(source: str, place: str, **_: Any) -> None:
        asked.append(place)
        raise _LoadedError

    monkeypatch.setattr("assay.runtime.cuda.names", lambda: gpus)
    monkeypatch.setattr(Engine, "load", staticmethod(load))
    progress = _Notes()
    options = SubjectOptions(engine="assay", model="synthetic", device=given, budget_s=60.0)
    with pytest.raises(_LoadedError), opened(options, progress):
        pass
    assert (asked, progress.notes) == ([device], notes)


@pytest.mark.parametrize("workload", ["protein", "transcribe"])
def test_a_workload_of_this_process_is_given_to_no_server(workload: str) -> None:
    options = SubjectOptions(engine="vllm", workload=workload, budget_s=60.0)
    with (
        pytest.raises(InputError, match=f"workload {workload}: expected no --engine, got vllm"),
        opened(options, _Notes()),
    ):
        pass


@pytest.mark.parametrize(
    ("concurrency", "gpu", "requests"), [(None, False, 64), (64, False, 256), (None, True, 512)]
)
def test_built_in_workloads_do_not_repeat_requests_within_a_round(
    concurrency: int | None, gpu: bool, requests: int
) -> None:
    asked = SubjectOptions(engine="vllm", workload="chat", concurrency=concurrency, budget_s=480.0)
    planned = _workload(asked, None, _Notes(), gpu=gpu)
    assert len(planned.requests) == requests
