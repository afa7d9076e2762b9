"""`assay ask`: the layout of a model that the scenario's GPUs are too small for."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Cli

GB = 1e9
PARAMETERS = 70.55e9
"""Of Llama 3.1 70B, by its model card; bfloat16 takes two bytes each."""
H200_BYTES = 143_771 * 2**20
"""What nvidia-smi states for an H200."""
USABLE = 0.9
"""vLLM's default for gpu_memory_utilization."""


def answer(cli: Cli, question: str) -> dict[str, Any]:
    found: dict[str, Any] = cli("ask", question, "--json").data["answer"]
    return found


def test_a_model_too_large_for_one_gpu_is_split_over_the_fewest(cli: Cli) -> None:
    assert 2 * PARAMETERS > USABLE * H200_BYTES
    assert 2 * PARAMETERS + 40 * GB < 2 * USABLE * H200_BYTES
    found = answer(cli, "cost per output token of Llama-3-70B on H200")
    assert found["assign"] == ["serving.tensor=2"]
    assert found["command"].endswith("--assign serving.tensor=2")
    assert not any("fit" in meaning for meaning in found["violated"])


def test_a_model_that_fits_keeps_the_layout_of_its_scenario(cli: Cli) -> None:
    assert answer(cli, "cost per output token of Llama 3 8B on H200")["assign"] == []


@pytest.mark.slow
def test_what_no_layout_mends_is_named(cli: Cli) -> None:
    # 405 billion parameters in bfloat16 need seven H200; their step is slower than the SLO allows.
    found = answer(cli, "cost per output token of Llama-3.1-405B on H200")
    assert found["assign"] == ["serving.tensor=8"]
    assert "TPOT is within its limit" in found["violated"]
