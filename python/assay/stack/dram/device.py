"""The device: how much of its pins' rate a stack can deliver, and why not all.

A stack refreshes its rows, opens and closes them, and turns its bus around between reads and writes. Refreshing all
banks at once stops a channel for hundreds of nanoseconds in every refresh interval; refreshing them one by one
leaves the others at work, so that only accesses to the bank in question wait. A long read loses little else:
rows are opened in other bank groups while one is read.
"""

from __future__ import annotations

from assay.model import POSITIVE, by_definition, cited, minimum, number, where
from assay.stack import hbm
from assay.stack.dram.cell import guard_band, interval, scope
from assay.stack.kernels import attention_decode, gemm_constants, passes

_JEDEC = "JEDEC JESD238, High Bandwidth Memory (HBM3) DRAM, 2022"
_REFRESH = cited(_JEDEC, "refresh command and Table 84, refresh cycle time by channel density")
_TIMING = cited(_JEDEC, "AC timings, as Ramulator 2 has them")
_HOT = cited(_JEDEC, "temperature compensated refresh: twice as often above 85 degrees Celsius")
_RATED = cited(
    "JEDEC JESD79-4, DDR4 SDRAM, 2012", "extended temperature range: 85 to 95 degrees Celsius, with double refresh"
)
_BUS = cited(
    "Jacob, Ng and Wang 2008, Memory Systems: Cache, DRAM, Disk", "ch. 11, read-write turnaround and data bus use"
)
_CHECKED = cited(_JEDEC, "on-die error correction and ECC bits")
_COMPRESSION = cited("NVIDIA A100 Tensor Core GPU Architecture, whitepaper 2020", "compute data compression")
_IDD = cited("Micron TN-40-07, Calculating Memory Power for DDR4 SDRAM", "power of read bursts from IDD4R and IDD3N")

temperature = scope.declare(
    "temperature, T_m [K]: temperature of the memory dies; unless given, 350 K",
    equals=number("350 K"),
    bounds=POSITIVE,
    reference=_HOT,
)
rated_temperature = scope.declare(
    "rated_temperature, T_mx [K as degC]: highest temperature at which memory holds its data",
    bounds=POSITIVE,
    reference=_RATED,
    boundary="primitive",
)
scope.inequality(
    "within_rating", temperature <= rated_temperature, "memory is no hotter than it may be", reference=_RATED
)
base_window = scope.declare(
    "refresh.base_window, t_REF0 [s as ms]: refresh window up to 85 degrees Celsius; unless given, 32 ms",
    equals=number("0.032 s"),
    bounds=POSITIVE,
    reference=_REFRESH,
)
scope.piecewise(
    interval,
    [(temperature <= number("358.15 K"), base_window)],
    otherwise=base_window / 2,
    name="refresh.window_by_temperature",
    meaning="leakage doubles with ten kelvin or so; hot dies are refreshed twice as often",
    reference=_HOT,
)
scope.approximation(
    base_window,
    guard_band,
    name="refresh.window_by_retention",
    valid=guard_band > number("0 s"),
    meaning="as seldom as the weakest cell that must hold allows",
    reference=_REFRESH,
)
commands = scope.declare(
    "refresh.commands, n_REF: refresh commands of a window; unless given, 8192",
    equals=8192,
    bounds=POSITIVE,
    reference=_REFRESH,
)
refresh_interval = scope.declare(
    "refresh.interval, t_REFI [s as us]: time between refresh commands", equals=interval / commands, reference=_REFRESH
)
channel_density = scope.declare(
    "channel_density, C_ch [byte as GiB]: capacity of a die by rank of its stack, which sets its refresh time",
    bounds=POSITIVE,
    reference=_REFRESH,
    boundary="primitive",
)
all_bank_time = scope.declare(
    "refresh.all_bank_time, t_RFCab [s as ns]: time of a refresh of all banks", reference=_REFRESH
)
scope.piecewise(
    all_bank_time,
    [
        (channel_density <= number("536870912 byte"), number("260e-9 s")),
        (channel_density <= number("1073741824 byte"), number("350e-9 s")),
        (channel_density <= number("2147483648 byte"), number("450e-9 s")),
    ],
    otherwise=number("550e-9 s"),
    name="refresh.time_by_density",
    meaning="4, 8, 16 Gbit and more",
    reference=_REFRESH,
)
bank_time = scope.declare(
    "refresh.bank_time, t_RFCpb [s as ns]: time of a refresh of one bank; unless given, 200 ns",
    equals=number("200e-9 s"),
    reference=_TIMING,
)
refresh_mode = scope.choice(
    "refresh.mode, m_REF: how banks are refreshed",
    {"bank": "one by one, while others are read", "all": "all at once"},
    default="bank",
    reference=_REFRESH,
)
refresh_share = scope.declare(
    "refresh.share, s_REF [1 as %]: share of time in which what is asked for is being refreshed",
    equals=where(refresh_mode.is_("bank"), bank_time, all_bank_time) / refresh_interval,
    bounds=(0, 1),
    reference=_REFRESH,
)
# Opening rows: at most four in a window.
clock_period = scope.declare(
    "clock_period, t_CK [s as ps]: period of the command clock; unless given, 625 ps",
    equals=number("625e-12 s"),
    bounds=POSITIVE,
    reference=_TIMING,
)
activate_window = scope.declare(
    "activate.window, n_FAW: clock periods in which four rows may be opened; unless given, 24",
    equals=24,
    reference=_TIMING,
)
row_size = scope.declare(
    "row.size, S_row [byte]: bytes of a row that a read uses; unless given, 1 KiB, a whole one",
    equals=number("1024 byte"),
    reference=_TIMING,
)
pseudo_channels = scope.declare(
    "pseudo_channels, n_pc: channels that open rows of their own, by channel; unless given, 2",
    equals=2,
    bounds=POSITIVE,
    reference=_TIMING,
)
activate_bandwidth = scope.declare(
    "activate.bandwidth, B_act [byte/s as GB/s]: bytes by time of the rows that a stack may open",
    equals=4 * row_size * pseudo_channels * hbm.channels_per_stack / (activate_window * clock_period),
    reference=_TIMING,
)
activate_share = scope.declare(
    "activate.share, s_act [1 as %]: share of the pins' rate that opened rows can feed",
    equals=minimum(activate_bandwidth / hbm.stack_bandwidth, 1),
    bounds=(0, 1),
    reference=_TIMING,
)
# Turning the bus around.
turnaround = scope.declare(
    "turnaround.periods, n_turn: clock periods lost by turning to writes and back; unless given, 42: 20 to writes, "
    "22 back",
    equals=42,
    reference=_TIMING,
)
burst = scope.declare(
    "burst.periods, n_BL: clock periods of a burst; unless given, 2", equals=2, bounds=POSITIVE, reference=_TIMING
)
batch = scope.declare(
    "turnaround.batch, k_turn: bursts of one direction between turns",
    bounds=(1, None),
    reference=_BUS,
    boundary="primitive",
)
write_share = scope.declare(
    "write_share, w: share of traffic that is written; unless given, none", equals=0, bounds=(0, 1), reference=_BUS
)
turn_share = scope.declare(
    "turnaround.share, s_turn [1 as %]: share of time lost to turns, where reads and writes alternate in batches",
    equals=where(write_share > 0, turnaround / (turnaround + 2 * batch * burst), 0),
    bounds=(0, 1),
    reference=_BUS,
)
efficiency = scope.declare(
    "efficiency, eta_m [1 as %]: share of the pins' rate that memory delivers",
    equals=(1 - refresh_share) * activate_share * (1 - turn_share),
    bounds=(0, 1),
    reference=_BUS,
    target=True,
)
# Energy of a burst, from the currents of a data sheet.
read_current = scope.declare(
    "read_current, I_4R [A as mA]: supply current of a channel that reads bursts", reference=_IDD, boundary="primitive"
)
standby_current = scope.declare(
    "standby_current, I_3N [A as mA]: supply current of a channel with open rows at rest",
    reference=_IDD,
    boundary="primitive",
)
supply = scope.declare("supply, V_DD [V]: supply voltage of the device", reference=_IDD, boundary="primitive")
burst_bandwidth = scope.declare(
    "burst_bandwidth, B_b [byte/s as GB/s]: rate at which those currents were measured",
    bounds=POSITIVE,
    reference=_IDD,
    boundary="primitive",
)
burst_energy = scope.declare(
    "burst_energy, E_b [J/byte as pJ/bit]: energy of array and pins by byte read",
    equals=(read_current - standby_current) * supply / burst_bandwidth,
    reference=_IDD,
    target=True,
)
transport_energy = scope.declare(
    "transport_energy, E_t [J/byte as pJ/bit]: energy by byte from the pins of the GPU to a multiprocessor",
    reference=hbm.ENERGY,
    boundary="primitive",
)
scope.equation(
    hbm.access_energy,
    burst_energy + transport_energy,
    name="access_energy",
    meaning="array, pins and the way across the GPU",
    reference=hbm.ENERGY,
)
# The shares of the data sheet's rate that kernels reach, where they are not fitted.
_READS = by_definition("a kernel that only reads is bound by what memory delivers")
scope.equation(
    passes.share, efficiency, name="share_of_passes", meaning="what memory delivers to passes", reference=_READS
)
scope.equation(
    gemm_constants.read_share,
    efficiency,
    name="share_of_gemms",
    meaning="what memory delivers to large GEMMs",
    reference=_READS,
)
scope.approximation(
    attention_decode.read_share,
    efficiency,
    name="share_of_decode",
    valid=efficiency > 0,
    meaning="what memory delivers to reads of the KV cache",
    reference=_BUS,
)
# What of the capacity holds data.
check_share = scope.declare(
    "capacity.check_share, s_ecc [1 as %]: check bits over all bits of memory; unless given, none: HBM has its own",
    equals=0,
    bounds=(0, 1),
    reference=_CHECKED,
)
usable = scope.declare(
    "capacity.usable, C_u [byte/GPU as GB/GPU]: capacity of a GPU's memory that holds data",
    equals=hbm.stacks * hbm.stack_capacity * (1 - check_share),
    reference=_CHECKED,
    target=True,
)
compression = scope.declare(
    "capacity.compression, k_z: bytes of data over the bytes that they are stored in; unless given, 1", equals=1,
    bounds=POSITIVE, reference=_COMPRESSION,
)  # fmt: skip
effective = scope.declare(
    "capacity.effective, C_e [byte/GPU as GB/GPU]: bytes of data that a GPU's memory holds",
    equals=usable * compression,
    reference=_COMPRESSION,
    target=True,
)
