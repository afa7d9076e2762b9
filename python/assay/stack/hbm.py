"""Stacked memory: from pins to the bandwidth and capacity of a stack."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, cited, number
from assay.stack import works

scope = Scope("hbm", "Memory stacks of a GPU")

BITS_PER_BYTE = number("8 bit/byte")

_HBM3 = "JEDEC JESD238, High Bandwidth Memory (HBM3) DRAM, 2022"
_CHANNELS = cited(_HBM3, "channels and data rate")
_H100 = cited(works.H100, "HBM3 and HBM2e DRAM")
ENERGY = cited(
    "O'Connor et al. 2017, Fine-Grained DRAM: Energy-Efficient DRAM for Extreme Bandwidth Systems",
    "energy of HBM2: activation, data movement and I/O",
)

stacks = scope.declare(
    "stacks, n_st [1/GPU]: memory stacks on a GPU's package", reference=_H100, boundary="primitive", nature="count"
)
channels_per_stack = scope.declare(
    "channels_per_stack, n_ch: independent channels of a stack", reference=_CHANNELS, boundary="primitive"
)
pins_per_channel = scope.declare(
    "pins_per_channel, n_DQ: data pins of a channel", reference=_CHANNELS, boundary="primitive"
)
pin_rate = scope.declare(
    "pin_rate, r_pin [bit/s as Gbit/s]: rate of one data pin",
    bounds=POSITIVE,
    reference=_CHANNELS,
    boundary="primitive",
)
stack_pins = scope.declare(
    "stack_pins, N_DQ: data pins of a stack", equals=channels_per_stack * pins_per_channel, reference=_CHANNELS
)
channel_bandwidth = scope.declare(
    "channel_bandwidth, B_ch [byte/s as GB/s]: peak rate of a channel",
    equals=pins_per_channel * pin_rate / BITS_PER_BYTE,
    reference=_CHANNELS,
)
stack_bandwidth = scope.declare(
    "stack_bandwidth, B_st [byte/s as GB/s]: peak rate of a stack",
    equals=channels_per_stack * channel_bandwidth,
    reference=_CHANNELS,
)
dies_per_stack = scope.declare(
    "dies_per_stack, n_die: memory dies in a stack", reference=_CHANNELS, boundary="primitive"
)
die_capacity = scope.declare(
    "die_capacity, C_die [byte as GB]: capacity of a die", reference=_CHANNELS, boundary="primitive"
)
stack_capacity = scope.declare(
    "stack_capacity, C_st [byte as GB]: capacity of a stack", equals=dies_per_stack * die_capacity, reference=_CHANNELS
)
stack_area = scope.declare(
    "stack_area, A_st [m^2 as mm^2]: footprint of a stack on the interposer", reference=_CHANNELS, boundary="primitive"
)
access_energy = scope.declare(
    "access_energy, E_DRAM [J/byte as pJ/bit]: energy per byte of memory traffic",
    reference=ENERGY,
    boundary="primitive",
)
