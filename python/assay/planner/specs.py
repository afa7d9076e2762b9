"""What a prediction is asked for: a model, hardware, a batch and how the engine runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.catalog import engines


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """One layer of a model."""

    mixer: str
    """attention, mla, or linear (state space, gated delta rule)."""
    mlp: str
    """dense or moe."""
    windowed: bool = False
    """Whether a sliding window bounds its attention."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model as values of the `architecture` scope of the graph of equations."""

    name: str
    architecture: Mapping[str, float]
    """Values by name within the scope, such as `layers` and `latent.width`."""
    source: str
    """Where the shapes come from: a path, or a name of the catalog."""
    notes: tuple[str, ...] = ()
    """What the reader of the configuration assumed."""
    layers: tuple[LayerSpec, ...] = ()
    """Every layer in order; empty: all alike, as the architecture's shares say."""
    weight_dtype: str = ""
    """The format that the files store most weights in; empty where they state none."""
    has_rope: bool = True
    head_dtype: str = ""
    """The format of the output projection in the files; empty where they state none."""
    context: int | None = None
    """Longest sequence that the configuration states."""
    format_source: str = ""
    """Where `weight_dtype` comes from, where it has fewer than 16 bits."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A measured ceiling of a machine: its median and the spread over repeats, in base units."""

    value: float
    lo: float
    """The 10 % quantile of the repeats."""
    hi: float
    """The 90 % quantile."""
    unit: str
    """byte/s, FLOP/s or s."""
    repeats: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What was measured: `operation`, and by operation `bytes`, `dtype`, `rows`, `threads` ..."""


@dataclass(frozen=True, slots=True)
class HardwareSpec:
    """An accelerator (or this machine's CPU) as given values of the graph of equations."""

    name: str
    given: Mapping[str, float]
    """Values by variable, in base units."""
    source: str
    """`catalog` or the path of the calibration that measured it."""
    ceilings: Mapping[str, Ceiling] = field(default_factory=dict)
    """Measured ceilings by name; empty where the numbers are the catalog's."""
    notes: tuple[str, ...] = ()
    accelerator: str = ""
    """The catalog's name of the accelerator; empty for a CPU, or a GPU that is not in it."""
    log_spreads: Mapping[str, float] = field(default_factory=dict)
    """Standard deviation of the logarithm of each uncertain value."""
    correlations: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Correlations of the logarithms, by pair in order of their names."""
    offer: str = ""
    """`PROVIDER:TERMS` at which it is rented; empty for the accelerator's usual offer."""

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU: one of the catalog, or a calibrated one that it does not have."""
        by_threads = any("threads" in ceiling.parameters for ceiling in self.ceilings.values())
        return bool(self.accelerator) or not by_threads


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """What one step works on, and how the engine runs it."""

    sequences: int = 1
    """Sequences that decode one token each (more with speculation)."""
    context: int | tuple[int, ...] = 1024
    """Tokens in the KV cache before the step: of every sequence, or of each."""
    prefill_tokens: int = 0
    """Tokens of prompts in the step: a chunk, or whole prompts."""
    speculative_tokens: int = 0
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    context_parallel: int = 1
    weight_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    engine: str = "vllm"
    """`vllm`, `sglang`, `trtllm` (or `tensorrt-llm`) or `assay`."""
    cuda_graphs: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)
    """Other settings of the engine, by the names it gives them."""
    prompt: int = 0
    """Length of each prompt in the step; 0: `prefill_tokens` are one whole prompt."""
    acceptance: float | None = None
    """Probability that a speculated token is accepted."""

    def __post_init__(self) -> None:
        """Take an engine by any of its names."""
        object.__setattr__(self, "engine", engines.canonical(self.engine))
