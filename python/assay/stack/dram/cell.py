"""The cell of a DRAM: a bit as the charge of a capacitor, which leaks and is read by sharing it.

A read connects the capacitor to a bitline that was charged to half the supply voltage. The charge spreads over
both, which moves the bitline by some tens of millivolts; a sense amplifier decides the sign and restores the
cell. Between reads the charge leaks away, from some cells of a chip a thousand times faster than from others, so
every row is refreshed long before a typical cell would forget.
"""

from __future__ import annotations

from assay.model import POSITIVE, Scope, Symbol, cited, exp, log, number

scope = Scope("dram", "Dynamic memory: cell and device")

_CELL = cited(
    "Jacob, Ng and Wang 2008, Memory Systems: Cache, DRAM, Disk", "ch. 8, DRAM device organization: basic circuits"
)
_CACTI = cited("Balasubramonian et al. 2017, CACTI 7", "DRAM cell, sense amplifier and refresh of the technology files")
_SENSE = cited(
    "Weste and Harris, CMOS VLSI Design, 4th edition 2011", "sec. 12.2.3, sense amplifiers: regenerative feedback"
)
_RETENTION = cited(
    "Hamamoto, Sugiura and Sawada 1998, On the retention time distribution of dynamic random access memory (DRAM), "
    "IEEE Transactions on Electron Devices 45(6)",
    "lognormal distribution of retention times",
)
_LOGNORMAL = cited("NIST/SEMATECH 2012, e-Handbook of Statistical Methods", "sec. 1.3.6.6.9, lognormal distribution")

capacitance = scope.declare(
    "cell.capacitance, C_s [F as fF]: capacitance of a cell", bounds=POSITIVE, reference=_CELL, boundary="primitive"
)
voltage = scope.declare(
    "cell.voltage, V_c [V]: voltage of a cell that stores a one", bounds=POSITIVE, reference=_CELL, boundary="primitive"
)
charge = scope.declare(
    "cell.charge, Q_s [C as fC]: charge of a cell that stores a one", equals=capacitance * voltage, reference=_CELL
)
bitline = scope.declare(
    "bitline.capacitance, C_bl [F as fF]: capacitance of a bitline", reference=_CELL, boundary="primitive"
)
signal = scope.declare(
    "bitline.signal, dV [V as mV]: voltage by which a cell moves its bitline, from half the supply",
    equals=voltage / 2 * capacitance / (capacitance + bitline),
    reference=_CACTI,
    target=True,
)
sense_floor = scope.declare(
    "sense.floor, V_min [V as mV]: least signal that a sense amplifier decides: its offset and noise",
    reference=_CACTI,
    boundary="primitive",
)
scope.inequality("sense.decides", signal >= sense_floor, "a cell moves its bitline enough to be read", reference=_CACTI)
sense_constant = scope.declare(
    "sense.constant, tau_s [s as ps]: time in which a sense amplifier multiplies its input by e",
    reference=_SENSE,
    boundary="primitive",
)
offset = scope.declare(
    "sense.offset, V_os [V as mV]: voltage by which an amplifier's two halves differ; unless given, none",
    equals=number("0 V"),
    reference=_SENSE,
)
sense_input = scope.declare(
    "sense.input, V_in [V as mV]: what the offset leaves of the signal, against it",
    equals=signal - offset,
    bounds=POSITIVE,
    reference=_SENSE,
)
gain = scope.declare(
    "sense.gain, A_s: gain from that input to half the supply, at which the bit is decided and restored",
    equals=voltage / 2 / sense_input,
    bounds=POSITIVE,
    reference=_SENSE,
)
sense_time = scope.declare(
    "sense.time, t_s [s as ns]: time of a sense amplifier from its input to half the supply",
    equals=sense_constant * log(gain),
    reference=_SENSE,
    target=True,
)
leakage = scope.declare(
    "cell.leakage, I_c [A as fA]: leakage current of a full cell", bounds=POSITIVE, reference=_CACTI,
    boundary="primitive",
)  # fmt: skip
loss = scope.declare(
    "cell.loss, l_c [1 as %]: share of the charge that may leak before a refresh",
    bounds=(0, 1),
    reference=_CACTI,
    boundary="primitive",
)
scope.approximation(
    loss,
    1 - sense_floor / signal,
    name="cell.loss_by_signal",
    valid=signal >= sense_floor,
    meaning="until the signal is the least that a sense amplifier decides",
    reference=_CACTI,
)
typical_retention = scope.declare(
    "retention.typical, t_r [s as ms]: time in which a cell of this leakage loses that share",
    equals=loss * charge / leakage,
    reference=_CACTI,
    target=True,
)
interval = scope.declare(
    "refresh.window, t_REF [s as ms]: time in which every row is refreshed", bounds=POSITIVE, reference=_CELL
)
left = scope.declare(
    "cell.left, V_t [V]: voltage of a cell at the end of the refresh window, where leakage falls with it",
    reference=_CELL,
    target=True,
)
scope.differential(
    left,
    -leakage / capacitance * left / voltage,
    time=Symbol("t"),
    time_like=interval,
    initial=voltage,
    start=number("0 s"),
    end=interval,
    name="cell.decay",
    meaning="a leak of constant conductance discharges the cell",
    reference=_CELL,
)
# Cells of one chip differ: the weakest one in a billion sets the refresh of all.
spread = scope.declare(
    "retention.spread, s_r: standard deviation of the logarithm of retention times",
    reference=_RETENTION,
    boundary="primitive",
)
median = scope.declare(
    "retention.median, t_50 [s as ms]: median retention time of a chip's cells",
    bounds=POSITIVE,
    reference=_RETENTION,
    boundary="primitive",
)
scope.approximation(
    median,
    typical_retention,
    name="retention.median_of_leakage",
    valid=leakage > number("0 A"),
    meaning="cells of typical leakage",
    reference=_CACTI,
)
retention = scope.declare(
    "retention.time, t_ret [s as ms]: retention time of a cell", bounds=POSITIVE, reference=_RETENTION, target=True
)
scope.stochastic(
    retention,
    "lognormal",
    median,
    spread,
    name="retention.distribution",
    meaning="drawn anew for each cell",
    reference=_RETENTION,
)
mean = scope.declare(
    "retention.mean, t_mean [s as ms]: mean retention time",
    equals=median * exp(spread**2 / 2),
    reference=_LOGNORMAL,
    target=True,
)
deviations = scope.declare(
    "retention.deviations, z_r: standard deviations below the median of the weakest cell that must hold",
    reference=_LOGNORMAL,
    boundary="scenario",
)
guard_band = scope.declare(
    "retention.guard_band, t_g [s as ms]: retention time of the weakest cell that must hold",
    equals=median * exp(-deviations * spread),
    reference=_LOGNORMAL,
    target=True,
)
scope.inequality(
    "refresh.in_time", interval <= guard_band, "rows are refreshed before their weakest cell forgets",
    reference=_RETENTION,
)  # fmt: skip
