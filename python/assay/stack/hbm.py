"""Stacked memory: from pins to the bandwidth and capacity of a stack."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, cited, number

scope = Scope("hbm", "Memory stacks of a GPU")

BITS_PER_BYTE = number("8 bit/byte")

_HBM3 = "JEDEC JESD238, High Bandwidth Memory (HBM3) DRAM, 2022"
_CHANNELS = cited(_HBM3, "channels and data rate")
_H100 = cited("NVIDIA H100 Tensor Core GPU Architecture, whitepaper 2022", "HBM3 and HBM2e DRAM")
ENERGY = cited(
    "O'Connor et al. 2017, Fine-Grained DRAM: Energy-Efficient DRAM for Extreme Bandwidth Systems"
)

stacks = scope.variable(
    "stacks", "n_st", "1/GPU", "memory stacks on a GPU's package", reference=_H100,
    boundary="primitive",
)  # fmt: skip
channels_per_stack = scope.variable(
    "channels_per_stack", "n_ch", "1", "independent channels of a stack",
    reference=_CHANNELS, boundary="primitive",
)  # fmt: skip
pins_per_channel = scope.variable(
    "pins_per_channel", "n_DQ", "1", "data pins of a channel", reference=_CHANNELS,
    boundary="primitive",
)  # fmt: skip
pin_rate = scope.variable(
    "pin_rate", "r_pin", "bit/s", "rate of one data pin", display="Gbit/s", bounds=POSITIVE,
    reference=_CHANNELS, boundary="primitive",
)  # fmt: skip
channel_bandwidth = scope.variable(
    "channel_bandwidth", "B_ch", "byte/s", "peak rate of a channel", display="GB/s",
    equals=pins_per_channel * pin_rate / BITS_PER_BYTE, reference=_CHANNELS,
)  # fmt: skip
stack_bandwidth = scope.variable(
    "stack_bandwidth", "B_st", "byte/s", "peak rate of a stack", display="GB/s",
    equals=channels_per_stack * channel_bandwidth, reference=_CHANNELS,
)  # fmt: skip
dies_per_stack = scope.variable(
    "dies_per_stack", "n_die", "1", "memory dies in a stack", reference=_CHANNELS,
    boundary="primitive",
)  # fmt: skip
die_capacity = scope.variable(
    "die_capacity", "C_die", "byte", "capacity of a die", display="GB", reference=_CHANNELS,
    boundary="primitive",
)  # fmt: skip
stack_capacity = scope.variable(
    "stack_capacity", "C_st", "byte", "capacity of a stack", display="GB",
    equals=dies_per_stack * die_capacity, reference=_CHANNELS,
)  # fmt: skip
stack_area = scope.variable(
    "stack_area", "A_st", "m^2", "footprint of a stack on the interposer", display="mm^2",
    reference=_CHANNELS, boundary="primitive",
)  # fmt: skip
access_energy = scope.variable(
    "access_energy", "E_DRAM", "J/byte", "energy per byte of memory traffic",
    display="pJ/bit", reference=ENERGY, boundary="primitive",
)  # fmt: skip
