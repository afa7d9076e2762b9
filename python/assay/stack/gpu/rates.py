"""Peak rates of one GPU: tensor cores, memory, and links to other GPUs."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, Variable, by_definition, cited
from assay.stack import hbm, works

scope = Scope("gpu", "One GPU")

_H100 = cited(works.H100, "Table 3")
_INT8 = cited(
    "Xiao et al. 2023, SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language Models",
    "W8A8 on INT8 tensor cores",
)
_INT4 = cited("NVIDIA A100 Tensor Core GPU Architecture, whitepaper 2020", "INT4 tensor cores")
_NVLINK = cited(works.H100, "NVLink")

multiprocessors = scope.declare(
    "multiprocessors, n_SM [1/GPU]: streaming multiprocessors", reference=_H100, boundary="primitive"
)
flops_per_cycle = scope.declare(
    "flops_per_cycle, F_SM [FLOP]: dense 16-bit tensor-core FLOPs per SM and cycle",
    reference=_H100,
    boundary="primitive",
)
clock = scope.declare(
    "clock, f [Hz as GHz]: boost clock of the SMs", bounds=POSITIVE, reference=_H100, boundary="primitive"
)
peak_flops = scope.declare(
    "peak_flops, P_peak [FLOP/(s*GPU) as TFLOP/(s*GPU)]: peak rate of dense 16-bit GEMMs at the boost clock",
    equals=multiprocessors * flops_per_cycle * clock,
    reference=_H100,
    target=True,
)


def _rate(name: str, symbol: str, what: str) -> Variable:
    return scope.declare(
        f"{name}, {symbol}: peak rate of {what} GEMMs over 16-bit ones; 0 without such units",
        bounds=(0, None),
        reference=_H100,
        boundary="primitive",
    )


rate_fp8 = _rate("rate_fp8", "m_F8", "FP8")
rate_int8 = _rate("rate_int8", "m_I8", "INT8")
rate_fp4 = _rate("rate_fp4", "m_F4", "FP4")
rate_int4 = _rate("rate_int4", "m_I4", "INT4")
rate_8bit = scope.declare(
    "rate_8bit, m_8: peak rate of 8-bit GEMMs over 16-bit ones",
    bounds=(0, None),
    equals=rate_fp8,
    reference=by_definition("8-bit operands are FP8"),
)
rate_4bit = scope.declare(
    "rate_4bit, m_4: peak rate of 4-bit GEMMs over 16-bit ones",
    bounds=(0, None),
    equals=rate_fp4,
    reference=by_definition("4-bit operands are FP4"),
)
scope.approximation(
    rate_8bit, rate_int8, name="integer_8bit", valid=rate_int8 > 0, meaning="8-bit operands are INT8", reference=_INT8
)
scope.approximation(
    rate_4bit, rate_int4, name="integer_4bit", valid=rate_int4 > 0, meaning="4-bit operands are INT4", reference=_INT4
)

memory_bandwidth = scope.declare(
    "memory.bandwidth, B [byte/(s*GPU) as TB/(s*GPU)]: peak rate of the memory",
    equals=hbm.stacks * hbm.stack_bandwidth,
    reference=_H100,
)
memory_capacity = scope.declare(
    "memory.capacity, C [byte/GPU as GB/GPU]: capacity of the memory",
    equals=hbm.stacks * hbm.stack_capacity,
    reference=_H100,
)
cache_capacity = scope.declare(
    "cache.capacity, C_L2 [byte/GPU as MB/GPU]: capacity of the L2 cache", reference=_H100, boundary="primitive"
)

link_count = scope.declare("link.count, n_l [1/GPU]: links to other GPUs", reference=_NVLINK, boundary="primitive")
link_lanes = scope.declare(
    "link.lanes, n_lane: lanes of a link in one direction", reference=_NVLINK, boundary="primitive"
)
link_lane_rate = scope.declare(
    "link.lane_rate, r_lane [bit/s as Gbit/s]: rate of a lane", reference=_NVLINK, boundary="primitive"
)
link_bandwidth = scope.declare(
    "link.bandwidth, B_l [byte/(s*GPU) as GB/(s*GPU)]: rate of all links to other GPUs in one direction",
    equals=link_count * link_lanes * link_lane_rate / hbm.BITS_PER_BYTE,
    reference=_NVLINK,
)
