"""The audit of hardware fails where a datum of a GPU moves no headline."""

from __future__ import annotations

import pytest

from assay.scenario import hardware_audit
from assay.scenario.questions.health import audit_model


@pytest.fixture(scope="module")
def found() -> hardware_audit.HardwareAudit:
    return hardware_audit.audit_hardware()


def test_every_datum_of_hardware_moves_a_headline(found: hardware_audit.HardwareAudit) -> None:
    assert found.issues == []


def test_what_is_exempt_is_so_for_a_reason(
    found: hardware_audit.HardwareAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the exemptions the audit fails and names them: the check has teeth."""
    monkeypatch.setattr(hardware_audit, "EXEMPT", {})
    monkeypatch.setattr(
        hardware_audit,
        "HEADLINES",
        {"llama3_8b_8_h100_training": ("training.step_time", "gpu.power")},
    )
    answer = audit_model()
    assert answer.problem is not None
    assert answer.problem.exit_code == 1
    assert "gpu.dense_use moves no headline" in answer.hardware.issues
    assert found.idle == ()
