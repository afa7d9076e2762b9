"""What can be changed while the engine runs, in one table, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from assay.engine.core.batch_scheduler import POLICIES
from assay.engine.core.kv_memory import FORMATS as KV_FORMATS
from assay.engine.runner.step_buffers import DEFAULT_BUCKETS
from assay.errors import InputError, unknown_name
from assay.ops.weights import NAMES as WEIGHT_FORMATS

Effect = Literal["bitwise", "tolerance"]

AS_STORED = "file"
"""Weights stay in the format that the file has."""


class Knob(NamedTuple):
    """One thing that can be changed."""

    name: str
    meaning: str
    default: int | str | bool
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] | None = None
    effect: Effect = "bitwise"
    """What a change does to outputs: nothing in deterministic mode, or rounding."""
    rebuilds: Literal["nothing", "graphs", "cache", "weights"] = "nothing"
    """What has to be made anew; requests that run are computed again where it is the cache."""

    def check(self, value: object) -> int | str | bool:
        """The value, if it can be meant."""
        if self.choices is not None:
            if value not in self.choices:
                raise InputError(
                    f"{self.name}: expected one of {', '.join(self.choices)}, got {value!r}"
                )
            return str(value)
        if isinstance(self.default, bool):
            if not isinstance(value, bool):
                raise InputError(f"{self.name}: expected True or False, got {value!r}")
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{self.name}: expected a whole number, got {value!r}")
        low, high = self.least, self.most
        if (low is not None and value < low) or (high is not None and value > high):
            raise InputError(f"{self.name}: expected from {low} to {high}, got {value}")
        return value


KNOBS: dict[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob("max_batch", "requests that run at once", 16, 1, 1024, rebuilds="graphs"),
        Knob(
            "token_budget",
            "tokens computed in a step: those of decoding requests, then chunks of prompts",
            512,
            1,
            65_536,
            rebuilds="graphs",
        ),
        Knob("block_tokens", "tokens in a block of the KV cache", 16, 1, 1024, rebuilds="cache"),
        Knob(
            "kv_format",
            "how keys and values are stored",
            "bf16",
            choices=tuple(KV_FORMATS),
            effect="tolerance",
            rebuilds="cache",
        ),
        Knob(
            "weight_format",
            "how matrices are stored; file keeps what the model's file has",
            AS_STORED,
            choices=(AS_STORED, *WEIGHT_FORMATS),
            effect="tolerance",
            rebuilds="weights",
        ),
        Knob(
            "attention_split",
            "parts in which cores share the reading of one long context; 0 is as many as help",
            0,
            0,
            64,
            effect="tolerance",
            rebuilds="graphs",
        ),
        Knob(
            "speculation_depth",
            "tokens guessed ahead by prompt lookup; 0 guesses none",
            0,
            0,
            32,
            rebuilds="graphs",
        ),
        Knob(
            "graph_buckets",
            "sizes of step between a number and its double that have graphs; 0 runs without any",
            DEFAULT_BUCKETS,
            0,
            64,
            rebuilds="graphs",
        ),
        Knob(
            "overlap",
            "whether a step is launched before the tokens of the one before it are read; "
            "auto does so on GPUs",
            "auto",
            choices=("auto", "on", "off"),
        ),
        Knob("policy", "who comes first", "fcfs", choices=POLICIES),
        Knob(
            "threads",
            "cores that the processor's kernels use, in this whole process; 0 is all of them",
            0,
            0,
            1024,
        ),
        Knob(
            "deterministic",
            "outputs do not depend on what else runs, byte for byte",
            False,
            effect="tolerance",
            rebuilds="graphs",
        ),
    )
}
"""Every knob by name."""


class Settings(NamedTuple):
    """The position of every knob."""

    max_batch: int
    token_budget: int
    block_tokens: int
    kv_format: str
    weight_format: str
    attention_split: int
    speculation_depth: int
    graph_buckets: int
    overlap: str
    policy: str
    threads: int
    deterministic: bool

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Settings:
        """The defaults with some positions changed."""
        return cls(**{name: knob.default for name, knob in KNOBS.items()}).changed(given)  # type: ignore[arg-type]

    def changed(self, changes: Mapping[str, object]) -> Settings:
        """These settings with some positions changed, checked together."""
        checked: dict[str, Any] = {}
        for name, value in changes.items():
            if name not in KNOBS:
                raise unknown_name("knob", name, KNOBS)
            checked[name] = KNOBS[name].check(value)
        made = self._replace(**checked)
        if made.token_budget < made.max_batch:
            raise InputError(
                f"token_budget: expected at least max_batch {made.max_batch}, "
                f"got {made.token_budget}",
                "every request that decodes needs a token in each step",
            )
        if made.deterministic and made.attention_split > 1:
            raise InputError(
                "attention_split: expected 0 or 1 in deterministic mode, "
                f"got {made.attention_split}",
                "parts of a context are added in another order, which rounds differently",
            )
        return made

    def as_dict(self) -> dict[str, Any]:
        """Positions by name."""
        return self._asdict()


class Undo:
    """Puts knobs back to where they were before a change."""

    def __init__(
        self, apply: Callable[[Mapping[str, Any]], object], before: dict[str, Any]
    ) -> None:
        """Remember the positions before a change."""
        self.before = before
        self._apply = apply

    def __call__(self) -> None:
        """Go back."""
        self._apply(self.before)
