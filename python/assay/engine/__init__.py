"""The engine: a language model served on the runtime, every kernel a model operation."""

from assay.engine.outputs import Chunk, Completion, FinishReason, StepOutput, Timing
from assay.engine.params import SamplingParams

__all__ = ["Chunk", "Completion", "FinishReason", "SamplingParams", "StepOutput", "Timing"]
