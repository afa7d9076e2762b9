"""What a failed trial forbids of later ones, alone and in combinations."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import cast

import pytest
from policy_situations import candidate

from assay.improve.experiments.result import Block, ExperimentResult
from assay.improve.levers.lever import joined
from assay.improve.loop.joint import JointSearch
from assay.improve.loop.options import RunOptions
from assay.improve.loop.state import Chosen, KeptStack, RunState, Trial
from assay.load.workloads.measurement import Setting

START: Mapping[str, Setting] = {"threads": 1, "max_batch": 1, "overlap": False}
VALUES: list[tuple[str, Setting]] = [
    ("threads", 2), ("max_batch", 4), ("max_batch", 8), ("overlap", True),
]  # fmt: skip
CANDIDATES = [candidate(knob, knob, value) for knob, value in VALUES]


def search() -> tuple[JointSearch, RunState]:
    """A search over the candidates, and the state of its run."""
    state = SimpleNamespace(
        start=START,
        stack=KeptStack(),
        chosen=Chosen(tuple(CANDIDATES), tuple(CANDIDATES)),
        options=RunOptions(),
        trials=[],
        notes=[],
    )
    return JointSearch(cast("RunState", state)), cast("RunState", state)


def trial(changes: Mapping[str, Setting], kept: Mapping[str, Setting], failure: str = "") -> Trial:
    """A trial on top of what is kept; one without a failure has a block."""
    block = Block("e", 0, 0, "treatment", 0.0, 1.0, 1.0, 10, 1, "stable", {})
    result = ExperimentResult(
        experiment="e",
        candidate=joined(CANDIDATES, changes),
        verdict="invalid" if failure else "undecided",
        ratio=None,
        reason="",
        blocks=() if failure else (block,),
        failure=failure,
    )
    return Trial(result, KeptStack(changes=kept))


@pytest.mark.parametrize(
    ("ran", "failed", "kept", "failure", "asked", "forbidden"),
    [
        # On top of another batch than the one that it crashed on.
        ([], {"overlap": True}, {"max_batch": 4}, "crash", {"overlap": True, "max_batch": 8}, True),
        ([], {"overlap": True}, {"max_batch": 4}, "hang", {"overlap": True}, True),
        ([], {"overlap": True}, {"max_batch": 4}, "crash", {"max_batch": 8}, False),
        # Of two values the one that had run is not to blame.
        ([{"threads": 2}], {"overlap": True, "threads": 2}, {}, "crash", {"threads": 2}, False),
        ([{"threads": 2}], {"overlap": True, "threads": 2}, {}, "crash", {"overlap": True}, True),
        # Both had run: only together they crash.
        ([{"threads": 2}, {"overlap": True}], {"overlap": True, "threads": 2}, {}, "crash",
         {"overlap": True}, False),
        ([{"threads": 2}, {"overlap": True}], {"overlap": True, "threads": 2}, {}, "crash",
         {"overlap": True, "threads": 2, "max_batch": 8}, True),
        # With a smaller batch there may be memory for it.
        ([], {"overlap": True}, {"max_batch": 4}, "OOM", {"overlap": True}, False),
    ],
)  # fmt: skip
def test_what_crashed_is_not_tried_again_with_other_changes(
    ran: list[Mapping[str, Setting]],
    failed: Mapping[str, Setting],
    kept: Mapping[str, Setting],
    failure: str,
    asked: Mapping[str, Setting],
    forbidden: bool,
) -> None:
    joint, _ = search()
    for changes in ran:
        joint.learn(trial(changes, {}))
    joint.learn(trial(failed, kept, failure))
    assert (joint.forbids(joined(CANDIDATES, asked)) is not None) == forbidden


def test_the_report_names_what_is_not_tried_again() -> None:
    joint, state = search()
    joint.learn(trial({"overlap": True}, {"max_batch": 4}, "crash"))
    joint.learn(trial({"overlap": True}, {"max_batch": 4}, "crash"))
    assert state.notes == [
        "overlap=True: crash, not tried again in this run, alone or with other changes"
    ]
