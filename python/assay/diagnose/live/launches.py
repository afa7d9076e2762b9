"""Launches one by one: a server whose steps fit the prediction without CUDA graphs, and no other."""

from __future__ import annotations

from assay.diagnose.hypothesis import Evidence, Hypothesis
from assay.diagnose.live.expectation import Expectation
from assay.diagnose.mechanisms.host import HOST_LAUNCH


def host_launch(
    expected: Expectation, sequences: int, context: int, step_ns: float
) -> Hypothesis | None:
    """The cause where a step is longer than predicted, and as long as one of single launches.

    No server states whether it replays graphs; a busy host looks the same from outside, so a trace
    is still needed to tell where the gaps are.
    """
    graphs = expected.step(sequences, context)
    if graphs is None or step_ns <= graphs["hi"]:
        return None
    eager = expected.step(sequences, context, cuda_graphs=False)
    if eager is None or not eager["lo"] <= step_ns <= eager["hi"]:
        return None
    base = HOST_LAUNCH
    return Hypothesis(
        base.name,
        base.sentence,
        step_ns - graphs["expected"],
        step_ns - graphs["hi"],
        step_ns - graphs["lo"],
        "cannot be told apart from a busy host without a trace",
        (
            Evidence(
                f"a step takes {step_ns / 1e6:.2f} ms; with CUDA graphs {_range(graphs)} is "
                f"predicted, with a launch for each kernel {_range(eager)}",
                source="prediction",
            ),
        ),
        base.fix,
    )


def _range(step: dict[str, float]) -> str:
    expected, lo, hi = (step[name] / 1e6 for name in ("expected", "lo", "hi"))
    return f"{expected:.2f} ms ({lo:.2f} to {hi:.2f})"
