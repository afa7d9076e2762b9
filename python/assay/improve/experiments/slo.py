"""The SLO gate: the treatment holds the service levels as often as it must."""

from __future__ import annotations

from dataclasses import dataclass, field

from assay.improve.experiments.result import Arm, GateResult
from assay.load.metrics import is_good, limits_ms, succeeded
from assay.load.workloads.measurement import Measurement
from assay.load.workloads.workload import ServiceLevel

GATE = "SLO"


@dataclass(slots=True)
class SloLedger:
    """Counts the requests of each arm that hold the SLO; a failed request does not."""

    slo: ServiceLevel
    share: float
    """Requests that have to hold it."""
    good: dict[Arm, int] = field(default_factory=lambda: {"control": 0, "treatment": 0})
    total: dict[Arm, int] = field(default_factory=lambda: {"control": 0, "treatment": 0})

    def add(self, arm: Arm, measurement: Measurement) -> None:
        """Count a block."""
        done = [record for record in measurement.records if succeeded(record)]
        self.total[arm] += len(measurement.records)
        self.good[arm] += int(is_good(done, self.slo).sum())

    def gate(self) -> GateResult | None:
        """None where the workload has no SLO or nothing was measured.

        The treatment passes with the share asked for, or, where the control itself falls short of
        it, with no less than the control.
        """
        limits = limits_ms(self.slo)
        if not limits or not self.total["control"] or not self.total["treatment"]:
            return None
        control = self.good["control"] / self.total["control"]
        treatment = self.good["treatment"] / self.total["treatment"]
        needed = min(self.share, control)
        names = ", ".join(f"{name} {limit:g} ms" for name, limit in limits.items())
        statement = (
            f"{treatment:.1%} of requests hold {names} ({control:.1%} in the control, "
            f"{needed:.1%} needed)"
        )
        evidence = {"good": dict(self.good), "requests": dict(self.total), "limits_ms": limits}
        return GateResult(GATE, treatment >= needed, statement, evidence)
