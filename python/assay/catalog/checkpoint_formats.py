"""Number formats of published checkpoints, and what an engine runs them as on an accelerator.

A case states a word ("fp4"); which parts of the model that word covers is a property of the
checkpoint, and what the kernels multiply is one of the accelerator and the engine. Every rule has
its source; what no rule covers follows the word as it stands.

>>> experts_of("gpt-oss-120b", "fp4")
'mxfp4'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class NativeFormat:
    """The format in which a family of models was published, by the start of its name."""

    family: str
    experts: str
    covers: tuple[str, ...]
    """Words of publications that mean this checkpoint."""
    source: str


NATIVE = (
    NativeFormat(
        "gpt-oss", "mxfp4", ("mxfp4", "fp4", "nvfp4", "fp8", "w4a16_mxfp4"),
        "OpenAI 2025, gpt-oss model card, sec. 2.1: weights of experts in MXFP4, the rest in 16 bits",
    ),
    NativeFormat(
        "deepseek-v3", "fp8_block", ("fp8", "fp8_block"),
        "DeepSeek-AI 2024, DeepSeek-V3 Technical Report, sec. 3.3: scales of 1 x 128 and 128 x 128",
    ),
    NativeFormat(
        "qwen3", "fp8_block", ("fp8", "fp8_block"),
        "Qwen 2025, cards of the FP8 models: fine-grained FP8 with blocks of 128",
    ),
    NativeFormat(
        "minimax-m2", "fp8_block", ("fp8", "fp8_block"),
        "MiniMax 2026, config.json of MiniMax-M2.5: float8_e4m3fn, weight_block_size 128 x 128",
    ),
    NativeFormat(
        "glm-5", "fp8_block", ("fp8", "fp8_block"),
        "Z.ai 2026, configuration of the FP8 model: blocks of 128 x 128",
    ),
    NativeFormat(
        "kimi-k2.5", "int4_wo", ("int4", "int4_wo", "w4a16"),
        "Moonshot AI 2026, Kimi K2.5 card: 4-bit integer weights of experts, groups of 32",
    ),
)  # fmt: skip
"""Checkpoints whose own format decides, whatever a benchmark calls it."""

EXPERTS_ONLY = ("mxfp4", "w4a8_mxfp4_mxfp8", "int4_wo")
"""Formats of experts only: gpt-oss and Kimi keep attention and shared parts in 16 bits."""


DRAFTING = ("deepseek-v3", "glm-5", "qwen3.5")
"""Families with layers that draft tokens (num_nextn_predict_layers, mtp_num_hidden_layers in their
configurations), which engines use for speculative decoding when asked."""


def experts_of(model: str, word: str) -> str | None:
    """The format of a model's experts that a word means, None where it stands for itself."""
    for native in NATIVE:
        if model.startswith(native.family) and word in native.covers:
            return native.experts
    return None


def run_as(name: str, engine: str, has_4_bit: bool, release: Sequence[int] = ()) -> str:
    """What an engine multiplies a format as: MXFP4 by 8-bit activations where the chip can.

    TensorRT-LLM and SGLang take MXFP8 activations on Blackwell, vLLM's default is 16 bits there
    (kernels in the tables of `expert_formats`); chips without 4-bit tensor cores unpack to 16 bits,
    in vLLM by Marlin's kernels for integers until 0.11.1 brought Triton's (pull request 27370).
    """
    if name == "mxfp4":
        if engine == "vllm" and not has_4_bit and release and tuple(release) < (0, 11, 1):
            return "int4_wo"
        return "w4a8_mxfp4_mxfp8" if has_4_bit and engine != "vllm" else "w4a16_mxfp4"
    if name == "nvfp4" and not has_4_bit:
        return "int4_wo"
    return name


def stated(words: Iterable[str]) -> str | None:
    """The first known format among the words of a case."""
    for word in words:
        for known, name in _WORDS:
            if known in word:
                return name
    return None


_WORDS = (
    ("w4a8_mxfp4_mxfp8", "w4a8_mxfp4_mxfp8"), ("mxfp4", "mxfp4"), ("nvfp4", "nvfp4"), ("fp4", "nvfp4"),
    ("int4", "int4_wo"), ("w4a16", "int4_wo"), ("awq", "int4_wo"), ("gptq", "int4_wo"),
    ("w4a8", "w4a8_mxfp4_mxfp8"), ("fp8_block", "fp8_block"),
    ("fp8", "fp8"), ("int8", "fp8"), ("w8a8", "fp8"), ("smoothquant", "fp8"), ("w8", "fp8"),
)  # fmt: skip
