"""Peak rates of one GPU: tensor cores, memory, and links to other GPUs."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, Variable, by_definition, cited
from assay.stack import hbm

scope = Scope("gpu", "One GPU")

_H100 = cited("NVIDIA H100 Tensor Core GPU Architecture, whitepaper 2022", "Table 3")
_INT8 = cited(
    "Xiao et al. 2023, SmoothQuant: Accurate and Efficient Post-Training Quantization for Large "
    "Language Models",
    "W8A8 on INT8 tensor cores",
)
_NVLINK = cited("NVIDIA H100 Tensor Core GPU Architecture, whitepaper 2022", "NVLink")

multiprocessors = scope.variable(
    "multiprocessors", "n_SM", "1/GPU", "streaming multiprocessors", reference=_H100,
    boundary="primitive",
)  # fmt: skip
flops_per_cycle = scope.variable(
    "flops_per_cycle", "F_SM", "FLOP",
    "dense 16-bit tensor-core FLOPs per SM and cycle",
    reference=_H100, boundary="primitive",
)  # fmt: skip
clock = scope.variable(
    "clock", "f", "Hz", "boost clock of the SMs", display="GHz", bounds=POSITIVE,
    reference=_H100, boundary="primitive",
)  # fmt: skip
peak_flops = scope.variable(
    "peak_flops", "P_peak", "FLOP/(s*GPU)", "peak rate of dense 16-bit GEMMs at the boost clock",
    display="TFLOP/(s*GPU)", equals=multiprocessors * flops_per_cycle * clock, reference=_H100,
    target=True,
)  # fmt: skip


def _rate(name: str, symbol: str, what: str) -> Variable:
    return scope.variable(
        name, symbol, "1", f"peak rate of {what} GEMMs over 16-bit ones; 0 without such units",
        bounds=(0, None), reference=_H100, boundary="primitive",
    )  # fmt: skip


rate_fp8 = _rate("rate_fp8", "m_F8", "FP8")
rate_int8 = _rate("rate_int8", "m_I8", "INT8")
rate_fp4 = _rate("rate_fp4", "m_F4", "FP4")
rate_int4 = _rate("rate_int4", "m_I4", "INT4")
rate_8bit = scope.variable(
    "rate_8bit", "m_8", "1", "peak rate of 8-bit GEMMs over 16-bit ones", bounds=(0, None),
    equals=rate_fp8, reference=by_definition("8-bit operands are FP8"),
)  # fmt: skip
rate_4bit = scope.variable(
    "rate_4bit", "m_4", "1", "peak rate of 4-bit GEMMs over 16-bit ones", bounds=(0, None),
    equals=rate_fp4, reference=by_definition("4-bit operands are FP4"),
)  # fmt: skip
scope.approximation(
    rate_8bit,
    rate_int8,
    name="integer_8bit",
    valid=rate_int8 > 0,
    meaning="8-bit operands are INT8",
    reference=_INT8,
)
scope.approximation(
    rate_4bit,
    rate_int4,
    name="integer_4bit",
    valid=rate_int4 > 0,
    meaning="4-bit operands are INT4",
    reference=_INT8,
)

memory_bandwidth = scope.variable(
    "memory.bandwidth", "B", "byte/(s*GPU)", "peak rate of the memory", display="TB/(s*GPU)",
    equals=hbm.stacks * hbm.stack_bandwidth, reference=_H100,
)  # fmt: skip
memory_capacity = scope.variable(
    "memory.capacity", "C", "byte/GPU", "capacity of the memory", display="GB/GPU",
    equals=hbm.stacks * hbm.stack_capacity, reference=_H100,
)  # fmt: skip
cache_capacity = scope.variable(
    "cache.capacity", "C_L2", "byte/GPU", "capacity of the L2 cache",
    display="MB/GPU", reference=_H100, boundary="primitive",
)  # fmt: skip

link_count = scope.variable(
    "link.count", "n_l", "1/GPU", "links to other GPUs", reference=_NVLINK, boundary="primitive"
)
link_lanes = scope.variable(
    "link.lanes", "n_lane", "1", "lanes of a link in one direction", reference=_NVLINK,
    boundary="primitive",
)  # fmt: skip
link_lane_rate = scope.variable(
    "link.lane_rate", "r_lane", "bit/s", "rate of a lane", display="Gbit/s", reference=_NVLINK,
    boundary="primitive",
)  # fmt: skip
link_bandwidth = scope.variable(
    "link.bandwidth", "B_l", "byte/(s*GPU)", "rate of all links to other GPUs in one direction",
    display="GB/(s*GPU)", equals=link_count * link_lanes * link_lane_rate / hbm.BITS_PER_BYTE, reference=_NVLINK,
)  # fmt: skip
