"""Steps of the own engine on an H200, from the catalog and the planner alone."""

from __future__ import annotations

from typing import Final

from assay.diagnose.replay.step_cost import StepShape
from assay.planner import BatchConfig, hardware_spec, model_spec, predict_graph
from whatif_cases import Setup

MODEL: Final = "llama-3.1-8b"
"""The shape that llama-3-8b-shape has."""
LAUNCH_NS: Final = 20_000.0
"""A launch without a graph: bench/results has 15 us (ceilings) and 29 us (tracing)."""
KERNELS: Final = 228
HOST_NS: Final = 450_000.0
"""Host work of a step, which async scheduling hides."""
TOP_P_NS: Final = 5_000.0
"""Choosing a token by top-p instead of greedily."""
GUESSED: Final = {"graph_buckets": 0.15, "overlap": 0.05}
"""Standard deviation of the logarithm where the planner does not know the knob."""


class PlannedSteps:
    """The time of a step as the planner predicts it, under the knobs of a setup."""

    def __init__(self, setup: Setup) -> None:
        """Read the model and the accelerator from the catalog."""
        self.setup = setup
        self.model, self.hardware = model_spec(MODEL), hardware_spec("h200")
        self._known: dict[StepShape, float] = {}

    def step_ns(self, shape: StepShape) -> float:
        """One prediction for each shape."""
        if shape not in self._known:
            self._known[shape] = self._predicted(shape)
        return self._known[shape]

    def _predicted(self, shape: StepShape) -> float:
        knobs = self.setup.knobs
        tokens = shape.prefill_tokens
        batch = BatchConfig(
            sequences=shape.decodes,
            context=max(round(shape.decode_context), 0),
            prefill_tokens=tokens,
            # A whole prompt of this length has as many pairs of query and key for each token.
            prompt=round(2 * shape.prefill_pairs / tokens) if tokens else 0,
            weight_dtype=str(knobs.get("weight_format", "bf16")),
            kv_dtype=str(knobs.get("kv_format", "bf16")),
            engine="assay",
        )
        step = predict_graph(self.model, self.hardware, batch).totals["step"].expected
        if knobs.get("graph_buckets") == 0:
            step = max(step, LAUNCH_NS * KERNELS)
        if knobs.get("overlap") == "off":
            step += HOST_NS
        if self.setup.sampling.get("temperature"):
            step += TOP_P_NS * shape.samples
        return step
