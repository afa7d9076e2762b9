"""The knobs: settings that can be changed while the engine runs, in one table, with undo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from assay.engine.core.batch_scheduler import POLICIES
from assay.engine.runner.graph_capture import DEFAULT_CAPTURED_PREFILL, DEFAULT_GRAPH_BUCKETS
from assay.engine.runner.kv_memory import FORMATS as KV_FORMATS
from assay.errors import InputError, unknown_name
from assay.ops.formats import NAMES as WEIGHT_FORMATS

Effect = Literal["bitwise", "tolerance"]

AS_STORED = "file"
"""Weights keep the format of the file."""

MAX_TOKEN_BUDGET = 65_536
"""Tokens of a step at most."""


class Knob(NamedTuple):
    """One setting that can be changed while the engine runs."""

    name: str
    meaning: str
    default: int | str | bool
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] | None = None
    effect: Effect = "bitwise"
    """What a change does to outputs: nothing in deterministic mode (bitwise), or rounding."""
    rebuilds: Literal["nothing", "graphs", "cache", "weights"] = "nothing"
    """What a change rebuilds; rebuilding the cache recomputes the running requests."""

    def check(self, value: object) -> int | str | bool:
        """The value, if it is valid."""
        if self.choices is not None:
            if value not in self.choices:
                raise InputError(
                    f"{self.name}: expected one of {', '.join(self.choices)}, got {value!r}"
                )
            return str(value)
        if isinstance(self.default, str):
            if not isinstance(value, str):
                raise InputError(f"{self.name}: expected a text, got {value!r}")
            return value
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
        Knob("max_batch", "requests that run in one batch", 16, 1, 1024, rebuilds="graphs"),
        Knob(
            "token_budget",
            "tokens computed in a step: one for each decoding request, then chunks of prefill",
            512,
            1,
            MAX_TOKEN_BUDGET,
            rebuilds="graphs",
        ),
        Knob(
            "max_step_ms",
            "milliseconds of a step at most while requests decode: chunks of prefill adapt to the "
            "steps measured; 0 is no limit",
            0,
            0,
            600_000,
        ),
        Knob("block_tokens", "tokens in a block of the KV cache", 16, 1, 1024, rebuilds="cache"),
        Knob(
            "kv_format",
            "data type of keys and values in the cache; fp8 is e4m3 without a scale, int8 has a "
            "scale for each token of a head",
            "bf16",
            choices=tuple(KV_FORMATS),
            effect="tolerance",
            rebuilds="cache",
        ),
        Knob(
            "weight_format",
            "format of the weight matrices; file keeps the format of the model's file",
            AS_STORED,
            choices=(AS_STORED, *WEIGHT_FORMATS),
            effect="tolerance",
            rebuilds="weights",
        ),
        Knob(
            "offload_layers",
            "layers, the last ones, whose weights stay in pinned host memory and are copied in each "
            "step, for models larger than device memory",
            0,
            0,
            1024,
            rebuilds="weights",
        ),
        Knob(
            "attention_split",
            "splits of one long context in attention (Flash-Decoding); 0 lets the device choose",
            0,
            0,
            64,
            effect="tolerance",
            rebuilds="graphs",
        ),
        Knob(
            "speculation_depth",
            "draft tokens of speculative decoding (num_speculative_tokens in vLLM); 0 disables it",
            0,
            0,
            32,
            rebuilds="graphs",
        ),
        Knob(
            "speculation_method",
            "what drafts: the request's text (ngram), Jacobi iterations (lookahead), a draft model, "
            "or some of the model's own layers (layer_skip)",
            "ngram",
            choices=("ngram", "lookahead", "draft_model", "layer_skip"),
        ),
        Knob(
            "draft_policy",
            "when to draft: always, or where it pays, as measured while the engine runs",
            "paying",
            choices=("paying", "always"),
        ),
        Knob(
            "draft_model",
            "model that drafts: a GGUF file, a folder or a known name; empty is the same weights",
            "",
        ),
        Knob(
            "draft_weight_format",
            "format of the draft model's weight matrices; file keeps the format of its file",
            AS_STORED,
            choices=(AS_STORED, *WEIGHT_FORMATS),
        ),
        Knob(
            "draft_layers",
            "layers that draft with layer_skip, the first and the last ones; 0 is half of them",
            0,
            0,
            1024,
        ),
        Knob(
            "graph_buckets",
            "graph capture sizes between a power of two and the next; 0 runs without graphs",
            DEFAULT_GRAPH_BUCKETS,
            0,
            64,
            rebuilds="graphs",
        ),
        Knob(
            "captured_prefill",
            "tokens of a step with prefill up to which a GPU captures a graph at once; larger steps are "
            "captured where their shape recurs",
            DEFAULT_CAPTURED_PREFILL,
            0,
            MAX_TOKEN_BUDGET,
            rebuilds="graphs",
        ),
        Knob(
            "graphs_per_step",
            "graphs that a step is launched as: beside other models, each waits for its turn",
            1,
            1,
            64,
            rebuilds="graphs",
        ),
        Knob(
            "overlap",
            "async scheduling: launch a step before the sampled tokens of the last one are read; "
            "auto is on for GPUs",
            "auto",
            choices=("auto", "on", "off"),
        ),
        Knob("policy", "order in which requests are scheduled", "fcfs", choices=POLICIES),
        Knob(
            "threads",
            "threads of the CPU kernels, in this whole process; 0 is one for each core",
            0,
            0,
            1024,
        ),
        Knob(
            "deterministic",
            "batch-invariant outputs: the same bytes whatever else is in the batch",
            False,
            effect="tolerance",
            rebuilds="graphs",
        ),
    )
}
"""Every knob by name."""


class Settings(NamedTuple):
    """The value of every knob."""

    max_batch: int
    token_budget: int
    max_step_ms: int
    block_tokens: int
    kv_format: str
    weight_format: str
    offload_layers: int
    attention_split: int
    speculation_depth: int
    speculation_method: str
    draft_policy: str
    draft_model: str
    draft_weight_format: str
    draft_layers: int
    graph_buckets: int
    captured_prefill: int
    graphs_per_step: int
    overlap: str
    policy: str
    threads: int
    deterministic: bool

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Settings:
        """The defaults with some values changed."""
        return cls(**{name: knob.default for name, knob in KNOBS.items()}).changed(given)  # type: ignore[arg-type]

    def changed(self, changes: Mapping[str, object]) -> Settings:
        """These settings with some values changed, checked together."""
        checked: dict[str, Any] = {}
        for name, value in changes.items():
            if name not in KNOBS:
                raise unknown_name("knob", name, KNOBS)
            checked[name] = KNOBS[name].check(value)
        settings = self._replace(**checked)
        if settings.token_budget < settings.max_batch:
            raise InputError(
                f"token_budget: expected at least max_batch {settings.max_batch}, "
                f"got {settings.token_budget}",
                "every request that decodes needs a token in each step",
            )
        if settings.deterministic and settings.attention_split > 1:
            raise InputError(
                "attention_split: expected 0 or 1 in deterministic mode, "
                f"got {settings.attention_split}",
                "splits of a context are summed in another order, which rounds differently",
            )
        return settings

    def as_dict(self) -> dict[str, Any]:
        """Values by name."""
        return self._asdict()


class Undo:
    """Sets knobs back to their values before a change."""

    def __init__(
        self, apply: Callable[[Mapping[str, Any]], object], before: dict[str, Any]
    ) -> None:
        """Keep the values before a change."""
        self.before = before
        self._apply = apply

    def __call__(self) -> None:
        """Set them back."""
        self._apply(self.before)
