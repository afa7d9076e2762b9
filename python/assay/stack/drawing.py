"""The power that a chip draws: at its limit or, below it, at the highest clock that its own voltage and heat leave.

Voltage drop and temperature slow the slowest paths, and a slower chip draws less. The power at which both
agree is a fixed point: a limit that the chip does not reach neither cools nor slows it.
"""

from __future__ import annotations

from collections.abc import Callable

from assay.model import POSITIVE, Expression, Scope, Variable, cited, exp, maximum, minimum, number
from assay.stack import delivery, hbm, switching, timing, transistor, works
from assay.stack.gpu import power as gpu_power, rates as gpu_rates, reference

scope = Scope("drawing", "Power, voltage and heat of a chip that agree")

_SELF = cited(works.CMOS_VLSI, "sec. 5.2, dynamic power, sec. 7.2, variation of supply and temperature")
_GPU = number("1 GPU")
# Repetitions take a quarter of each change: the slope of power by its own drop may be as steep as -4.
_STEP = 0.25


def _drawn(given: Expression, activity_at: Callable[[Expression], Expression]) -> Expression:
    """Power of the board at its highest clock, where voltage and temperature are those of `given`, in watts."""
    regulated = delivery.regulated
    warmth = gpu_power.coolant_temperature + gpu_power.thermal_resistance * given / _GPU
    # Below the threshold next to nothing switches, so that the power which takes the voltage there is never drawn.
    least = transistor.threshold_at(warmth, regulated)
    volts = maximum(regulated - delivery.grid_resistance * given / regulated, least)
    steady = volts - transistor.guard
    speed = transistor.speed_at(
        steady, transistor.threshold_at(warmth, volts), warmth, steady / reference.reference_supply
    )
    # Resistance is voltage over current, and current is speed by voltage: gates slow by the inverse of speed.
    resistance = 0.75 * reference.reference_supply / (transistor.on_current * transistor.width * speed)
    gate = (resistance * switching.load + switching.wire_delay) / gpu_power.process_speed
    top = 1 / (timing.depth * gate * timing.margin + timing.overhead)
    clock = minimum(gpu_power.REFERENCE_CEILING * gpu_rates.clock, top)
    boost = reference.reference_clock * top / (reference.reference_top_clock * gpu_power.process_speed)
    slope = transistor.slope_at(volts / reference.reference_supply)
    voltage = maximum(transistor.floor_at(volts), 1 - slope * (1 - clock / boost))
    pace = clock / reference.reference_clock
    leakage = (
        reference.reference_leakage
        * transistor.leakage_at(volts)
        * voltage
        * exp((warmth - number("300 K")) / reference.reference_leakage_scale)
    )
    switched = activity_at(pace) * gpu_power.cycle_capacitance * volts**2 * clock * voltage**2
    losses = regulated / volts * reference.reference_supply / reference.reference_regulated
    memory = gpu_power.memory_duty_at(pace) * gpu_rates.memory_bandwidth * hbm.access_energy
    share = gpu_power.energy_share
    return (gpu_power.power_idle + share * memory + losses * (leakage + share * switched)) * _GPU


def _balance(power: Variable, activity_at: Callable[[Expression], Expression], name: str) -> None:
    """Let the clock follow voltage and heat, these the power, and the power the clock."""
    scope.iterative(
        power,
        (1 - _STEP) * power + _STEP * minimum(gpu_power.power_ceiling * _GPU, _drawn(power, activity_at)),
        start=gpu_power.power_ceiling * _GPU,
        name=name,
        meaning="the clock follows voltage and heat, they follow the power, and the power the clock",
        reference=_SELF,
    )


power = scope.declare(
    "power, P_dr [W]: power that a chip draws: its limit, or that at its highest clock where it is less",
    bounds=POSITIVE,
    reference=_SELF,
    target=True,
)
_balance(power, gpu_power.activity_at, "power.balance")
scope.approximation(
    delivery.input_power,
    power,
    name="power_of_chip",
    valid=power > number("0 W"),
    meaning="regulators give what the chip draws",
    reference=_SELF,
)
# The activity of a workload follows the clock, and the clock the power, so that it cannot be read here. A question that
# states gpu.activity states this one too.
stated_activity = scope.declare(
    "stated_activity, a_s: switching activity that is stated, over that of dense GEMMs, whatever the clock",
    reference=_SELF,
    boundary="scenario",
)
stated = scope.declare(
    "power.stated, P_ds [W]: power that a chip draws at a stated activity, whatever its clock",
    bounds=POSITIVE,
    reference=_SELF,
    target=True,
)
_balance(stated, lambda _: stated_activity, "power.stated_balance")
scope.approximation(
    delivery.input_power,
    stated,
    name="power_at_activity",
    valid=stated > number("0 W"),
    meaning="regulators give what the chip draws at the stated activity",
    reference=_SELF,
)
