"""Software that a case names, or that its date implies."""

from __future__ import annotations

import pytest

from assay.validate.cases import Case
from assay.validate.training.software import software_of

A100, H100 = 2020.4, 2022.7


def features(framework: str, date: float, launched: float) -> tuple[float, float]:
    """Attention kernels, and whether sums between tensor ranks overlap."""
    case = Case("a-1", "training", {"framework": framework, "stated_date": date}, {})
    values = software_of(case, [case], launched).values
    return values["software.attention"], values["software.tensor_overlap"]


@pytest.mark.parametrize(
    ("framework", "date", "launched", "expected"),
    [
        # Transformer Engine calls cuDNN, which had kernels for Hopper before FlashAttention-3.
        ("Megatron-LM", 2024.3, H100, (3.0, 1.0)),
        ("NeMo", 2024.3, H100, (3.0, 1.0)),
        ("own trainer", 2024.3, H100, (2.0, 0.0)),
        ("own trainer", 2024.8, H100, (3.0, 0.0)),
        ("own trainer", 2023.1, A100, (1.0, 1.0)),
        ("PyTorch FSDP", 2024.8, H100, (2.0, 0.0)),
        ("Megatron-LM", 2021.3, A100, (0.0, 0.0)),
    ],
)
def test_kernels_and_overlap_follow_software_and_date(
    framework: str, date: float, launched: float, expected: tuple[float, float]
) -> None:
    assert features(framework, date, launched) == expected
