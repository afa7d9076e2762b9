"""The audit of hardware fails where a datum of a GPU moves no headline."""

from __future__ import annotations

import pytest

from assay import stack
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


def test_data_that_serve_nothing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the answers beside the headlines, what only they need is named; the rest reaches a headline."""
    registry = stack.registry()
    monkeypatch.setattr(hardware_audit, "ANSWERS", {})
    alone = set(hardware_audit.unconnected(registry))
    assert {"sram.matching", "switching.flicker.constant"} <= alone
    assert alone.isdisjoint(
        {"dram.cell.leakage", "stacking.via.radius", "wires.barrier", "regulation.memory.power"}
    )


def test_every_answer_serves_a_datum_that_no_headline_needs() -> None:
    """An answer that excuses nothing is not on the list."""
    registry = stack.registry()
    headlines = [target for targets in hardware_audit.HEADLINES.values() for target in targets]
    served = set(registry.graph.reachable(headlines).variables)
    for answer in hardware_audit.ANSWERS:
        assert registry.variables[answer].target
        assert set(registry.graph.reachable([answer]).variables) & set(registry.roots) - served
