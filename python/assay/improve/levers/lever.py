"""A lever and a candidate: a lever with values for its knobs, ready to be tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from assay.intervals import Interval
from assay.load.workloads.measurement import Setting

Correctness = Literal["bitwise", "rounding", "lossy", "changes sampling"]
CORRECTNESS: Final[tuple[Correctness, ...]] = ("bitwise", "rounding", "lossy", "changes sampling")
"""What a lever may do to outputs; each class has its own gate."""

Safety = Literal["safe", "may slow", "may fail"]
SAFETY: Final[tuple[Safety, ...]] = ("safe", "may slow", "may fail")
"""What can go wrong besides no gain, mildest first: nothing, worse latency meanwhile, a crash or
OOM. `--max-risk` names the last that may be tried."""


Riskier = Literal["larger", "smaller", "later", "earlier"]
RISKIER: Final[tuple[Riskier, ...]] = ("larger", "smaller", "later", "earlier")
"""Larger or smaller numbers, or words later or earlier in the order of the lever's values."""


@dataclass(frozen=True, slots=True)
class KnobRange:
    """A knob of a lever and the values that the search may try, in the order of trying."""

    knob: str
    values: tuple[Setting, ...]
    """A text that begins with = is an expression, such as = 2 * knob.max_batch; null drops it."""
    riskier: Riskier | None = None
    """Which values need more memory: what an OOM at one of them says of the others."""


@dataclass(frozen=True, slots=True)
class Lever:
    """One entry of the library."""

    name: str
    engine: str
    """assay, llama.cpp, vllm, or any."""
    mechanism: str
    """One sentence: how it saves time."""
    knobs: tuple[KnobRange, ...]
    """Of several knobs the values go together: the first of each, the second of each ..."""
    applies: tuple[str, ...] = ()
    """Predicates over capabilities, settings, workload and diagnosis; all must hold."""
    addresses: tuple[str, ...] = ()
    """Causes (names of hypotheses) and waterfall terms that it reduces."""
    changes: tuple[str, ...] = ()
    """What-if changes that describe it to the replay, where there are such: launch=graph."""
    safety: Safety = "safe"
    hot: bool = True
    correctness: Correctness = "bitwise"
    memory: bool = False
    """Whether what it gains depends on how much memory there is."""
    reference: str = ""
    source: str = "built-in"
    """The file that it comes from."""

    @property
    def inverse(self) -> str:
        """How it is taken back."""
        names = " and ".join(knob.knob for knob in self.knobs)
        how = "live" if self.hot else "by a restart"
        return f"{names} set back, {how}, to what the engine read back before the change"

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        data = asdict(self)
        origin = {name: data.pop(name) for name in ("reference", "source")}
        return {**data, "inverse": self.inverse, **origin}


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings to try, why, and what is expected of them."""

    name: str
    """The lever's name and the values: threads=2."""
    levers: tuple[str, ...]
    """One, or several in a joint candidate."""
    changes: Mapping[str, Setting]
    correctness: Correctness
    safety: Safety
    hot: bool
    prediction: Interval | None = None
    """Objective after over before; above 1 is better whatever the metric's direction. None where
    nothing predicts it, which ranks it by the history or last."""
    predicted_on: Mapping[str, Setting] = field(default_factory=dict)
    """Kept changes that the prediction is on top of; none where it is of a change of the start."""
    predicted_by: str = ""
    """what-if replay, planner, history ..., or why there is no prediction."""
    cost_s: float = 0.0
    """Expected seconds of trying it."""
    score: float = 0.0
    """What ranks it."""
    notes: tuple[str, ...] = ()
    """What was not known when it was proposed."""
    memory: bool = False
    """Whether what it gains depends on how much memory there is: proven with the whole of it."""


def joined(candidates: Sequence[Candidate], changes: Mapping[str, Setting]) -> Candidate:
    """Changes of several candidates as one, named by them, of the strictest classes among those."""
    return Candidate(
        name=", ".join(f"{knob}={value}" for knob, value in changes.items()),
        levers=tuple(
            dict.fromkeys(lever for candidate in candidates for lever in candidate.levers)
        ),
        changes=dict(changes),
        correctness=max((candidate.correctness for candidate in candidates), key=CORRECTNESS.index),
        safety=max((candidate.safety for candidate in candidates), key=SAFETY.index),
        hot=all(candidate.hot for candidate in candidates),
        memory=any(candidate.memory for candidate in candidates),
    )
