"""`assay causal-profile`."""

import json
from typing import Any

import pytest

# A delay that is long beside a step: what a busy machine does to a step does not matter.
WORDS = ("synthetic", "--context", "16", "--steps", "2", "--node", "lm_head")


def test_a_profile_as_json(cli: Any) -> None:
    outcome = cli("causal-profile", *WORDS, "--dose", "40000", "--budget", "90", "--json")
    assert outcome.code == 0, outcome.err
    data = json.loads(outcome.out)
    assert list(data) == [
        "model", "device", "batch", "context", "step_ns", "control_ns", "overhead", "confidence",
        "seed", "seconds", "experiments", "degradations",
    ]  # fmt: skip
    [one] = data["experiments"]
    assert list(one) == [
        "name", "operation", "nodes", "verdict", "slope", "lo", "hi", "requested_ns", "doses_ns",
        "effects_ns", "absorbed_ns", "runs", "controls", "blocks",
    ]  # fmt: skip
    assert one["nodes"] == ["head"]
    assert one["requested_ns"] == [40_000_000]
    # A step of a CPU engine runs one operation after the other: it waits for each.
    assert one["verdict"] == "critical"
    assert one["slope"] == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--budget", "0"), "--budget: expected more than 0 seconds, got 0"),
        (
            ("--node", "mlp.router"),
            'nodes: expected nodes or operations of the step, got "mlp.router"',
        ),
        (("--dose", "0"), "doses: expected from"),
        (("--batch", "0"), "batch: expected from 1 to 16, got 0"),
        (("--context", "100000"), "context: expected from 1 to"),
        (("--knob", "graph_buckets=0"), "delays: expected steps that are captured as graphs"),
        (("--budget", "0.001"), "budget: expected at least"),
    ],
)
def test_bad_input_is_one_line(cli: Any, words: tuple[str, ...], message: str) -> None:
    outcome = cli("causal-profile", "synthetic", "--steps", "1", *words)
    assert outcome.code == 2
    assert message in outcome.err
    assert "Traceback" not in outcome.err
