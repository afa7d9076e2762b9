"""Sizes of GGUF files: tensor by tensor, against files that were published."""

from __future__ import annotations

import pytest

from assay.asking.answering import ask
from assay.asking.case import Case
from assay.asking.commands import SERVING
from assay.catalog import models
from assay.planner import gguf_mixes

LLAMA_70B = {
    "Q8_0": 74.98, "Q6_K": 57.89, "Q5_K_M": 49.95, "Q5_K_S": 48.66, "Q4_K_M": 42.52, "Q4_K_S": 40.35,
    "Q4_0": 40.12, "Q3_K_L": 37.14, "Q3_K_M": 34.27, "Q3_K_S": 30.91,
}  # fmt: skip
"""GB of the files of bartowski/Meta-Llama-3.1-70B-Instruct-GGUF, by its card."""
OTHERS = (
    ("llama-2-7b", "Q4_K_M", 4.08), ("llama-2-7b", "Q3_K_L", 3.60), ("llama-3.1-8b", "Q4_K_M", 4.92),
    ("llama-3.2-3b", "Q4_K_M", 2.02), ("qwen2.5-72b", "Q4_K_M", 47.42), ("gemma-3-27b", "Q4_K_M", 16.55),
    ("qwen3-30b-a3b", "Q4_K_M", 18.56), ("deepseek-v3", "Q4_K_M", 404.4),
)  # fmt: skip
"""GB of further files, by their cards: tied embeddings, latent attention, experts."""


def size_of(model: str, name: str) -> float:
    """GB of a file: the weights of layers, experts and embeddings in their mean formats."""
    model_record = models.find(model)
    names = (
        "architecture.parameters",
        "architecture.embedding.parameters",
        "serving.expert_parameters",
    )
    whole, embeddings, experts = Case(SERVING, (f"models/{model_record.name}",)).values(*names)
    assert whole is not None
    assert embeddings is not None
    assert experts is not None
    mix = gguf_mixes.mix(name, model_record.shapes)
    rest = whole - embeddings - experts
    return (rest * mix.weights + experts * mix.experts + embeddings * mix.embeddings) / 1e9


@pytest.mark.parametrize(("name", "size"), LLAMA_70B.items())
def test_the_size_of_each_published_mix(name: str, size: float) -> None:
    assert size_of("llama-3.1-70b", name) == pytest.approx(size, rel=0.005)


@pytest.mark.parametrize(("model", "name", "size"), OTHERS)
def test_the_size_of_a_published_file(model: str, name: str, size: float) -> None:
    assert size_of(model, name) == pytest.approx(size, rel=0.005)


def test_half_a_name_is_the_usual_mix() -> None:
    """As `llama-quantize` takes it: Q4_K is Q4_K_M."""
    assert [gguf_mixes.canonical(name) for name in ("Q4", "q4_k", "q6")] == [
        "q4_k_m", "q4_k_m", "q6_k",
    ]  # fmt: skip


def test_embeddings_of_a_file_are_quantized_where_it_fits() -> None:
    """Embeddings of 16 bits would add 1.4 GB to the 4.92 GB of the file."""
    outcome = ask("does llama 3.1 8b at q4 fit on an 8 GB card?").outcome
    assert outcome is not None
    assert "weights take 4.912 GB" in outcome.text
