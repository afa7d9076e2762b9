"""Arithmetic units: how many operations a multiprocessor does in a cycle, by format, and in how much silicon.

A tensor core multiplies small matrices: in each cycle it does a fixed number of multiply-adds of 16-bit numbers.
Numbers of half the width fit twice into the same operands; a multiplier grows with the square of its fraction, which
is why narrow formats are cheap. Beside them are lanes of single precision, one multiply-add each.
"""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited, number
from assay.stack import formats, hbm, works
from assay.stack.gpu import power as gpu_power, rates as gpu_rates

scope = Scope("arithmetic", "Arithmetic units of a multiprocessor")

_H100 = cited(works.H100, "tensor cores and Table 3")
_MMA = cited("NVIDIA Parallel Thread Execution ISA 8", "matrix multiply-accumulate instructions: shapes m, n and k")
_MULTIPLIER = cited(works.CMOS_VLSI, "sec. 11.9, multiplication: partial products")
_AREA = cited(
    "Zhang et al. 2024, LLMCompass: Enabling Efficient Hardware Design for Large Language Model Inference, ISCA",
    "area model: floating-point units scale with the square of the fraction",
)
_THROUGHPUT = cited(works.CUDA_GUIDE, "throughput of native arithmetic instructions")
_MX = cited(
    "Rouhani et al. 2023, Microscaling Data Formats for Deep Learning, arXiv:2310.10537", "stored size by element"
)
_SPARSE = cited(works.H100, "fine-grained structured sparsity")
_TWO = number("2 FLOP")

tensor_cores = scope.declare(
    "tensor_cores, n_TC: tensor cores of a multiprocessor", bounds=POSITIVE, reference=_H100, boundary="primitive"
)
multiply_adds = scope.declare(
    "multiply_adds, n_FMA: multiply-adds of 16-bit numbers that a tensor core does in a cycle",
    reference=_H100,
    boundary="primitive",
)
vector_lanes = scope.declare(
    "vector_lanes, n_v: lanes of single precision of a multiprocessor", reference=_H100, boundary="primitive"
)
double_share = scope.declare(
    "double_share, s_64: rate of double precision over that of 16 bits on tensor cores; 0 without such units",
    reference=_H100,
    boundary="primitive",
)
tensor_16 = scope.declare(
    "flops.bits_16, F_16 [FLOP]: operations on 16-bit numbers of a multiprocessor's tensor cores in a cycle",
    equals=_TWO * tensor_cores * multiply_adds,
    bounds=POSITIVE,
    reference=_H100,
    target=True,
)
tensor_8 = scope.declare(
    "flops.bits_8, F_8 [FLOP]: operations on 8-bit numbers: twice as many fit into an operand",
    equals=gpu_rates.rate_8bit * tensor_16,
    reference=_H100,
    target=True,
)
tensor_4 = scope.declare(
    "flops.bits_4, F_4 [FLOP]: operations on 4-bit numbers",
    equals=gpu_rates.rate_4bit * tensor_16,
    reference=_H100,
    target=True,
)
tensor_32 = scope.declare(
    "flops.tf32, F_TF [FLOP]: operations on TF32 numbers, which take operands of 32 bits",
    equals=tensor_16 / 2,
    reference=_H100,
    target=True,
)
tensor_64 = scope.declare(
    "flops.fp64, F_64 [FLOP]: operations on numbers of double precision, on tensor cores",
    equals=double_share * tensor_16,
    reference=_H100,
    target=True,
)
vector_32 = scope.declare(
    "flops.vector, F_v [FLOP]: operations of single precision on the vector lanes",
    equals=_TWO * vector_lanes,
    reference=_H100,
    target=True,
)
vector_share = scope.declare(
    "vector_share, s_v [1 as %]: operations of the vector lanes over those of the tensor cores on 16 bits: what is not "
    "a GEMM runs at this share of the peak",
    equals=vector_32 / tensor_16,
    reference=by_definition("ratio of operations in a cycle"),
    target=True,
)
sparse_kept = scope.declare(
    "sparse.kept, n_kept: numbers kept of a group of structured sparsity; unless given, 2", equals=2, bounds=POSITIVE,
    reference=_SPARSE,
)  # fmt: skip
sparse_group = scope.declare(
    "sparse.group, n_group: numbers of a group of structured sparsity; unless given, 4", equals=4, reference=_SPARSE
)
sparse_16 = scope.declare(
    "flops.sparse, F_s [FLOP]: operations on 16-bit numbers that a structured sparse operand stands for",
    equals=tensor_16 * sparse_group / sparse_kept,
    reference=_SPARSE,
    target=True,
)
rows = scope.declare("mma.rows, m: rows of an instruction's output", reference=_MMA, boundary="scenario")
columns = scope.declare("mma.columns, n: columns of an instruction's output", reference=_MMA, boundary="scenario")
depth = scope.declare("mma.depth, k: products summed by an instruction", reference=_MMA, boundary="scenario")
instruction_flops = scope.declare(
    "mma.flops, F_mma [FLOP]: operations of one matrix instruction",
    equals=_TWO * rows * columns * depth,
    reference=_MMA,
    target=True,
)
instruction_cycles = scope.declare(
    "mma.cycles, c_mma: cycles for which an instruction keeps the tensor cores of a multiprocessor busy",
    equals=instruction_flops / tensor_16,
    reference=by_definition("operations over operations in a cycle"),
    target=True,
)
fraction_bits = scope.declare(
    "multiplier.fraction_bits, m_f: bits of the fraction of the numbers multiplied",
    bounds=POSITIVE,
    reference=_MULTIPLIER,
    boundary="scenario",
)
double_transistors = scope.declare(
    "multiplier.double_transistors, n_T64: transistors of a unit of double precision",
    bounds=POSITIVE,
    reference=_AREA,
    boundary="primitive",
)
unit_transistors = scope.declare(
    "multiplier.transistors, n_Tf: transistors of a multiply-add unit, by the square of its fraction",
    equals=double_transistors * (fraction_bits / 52) ** 2,
    reference=_AREA,
    target=True,
)
tensor_transistors = scope.declare(
    "tensor_transistors, n_TT: transistors of the multiply-add units of a multiprocessor's tensor cores",
    equals=tensor_cores * multiply_adds * unit_transistors,
    reference=_AREA,
    target=True,
)
scope.equation(
    gpu_rates.flops_per_cycle,
    tensor_16,
    name="flops_per_cycle",
    meaning="tensor cores by their multiply-adds",
    reference=_H100,
)
# Other units.
vector_peak = scope.declare(
    "peak.vector, P_v [FLOP/(s*GPU) as TFLOP/(s*GPU)]: peak rate of the vector lanes at the boost clock",
    equals=gpu_rates.multiprocessors * vector_32 * gpu_rates.clock,
    reference=_H100,
    target=True,
)
special_lanes = scope.declare(
    "special.lanes, n_sf: exponentials, roots and the like of a multiprocessor in a cycle", bounds=POSITIVE,
    reference=_THROUGHPUT, boundary="primitive",
)  # fmt: skip
special_peak = scope.declare(
    "special.rate, r_sf [1/(s*GPU)]: exponentials, roots and the like of a GPU by time",
    equals=gpu_rates.multiprocessors * special_lanes * gpu_rates.clock,
    bounds=POSITIVE,
    reference=_THROUGHPUT,
    target=True,
)
special_ratio = scope.declare(
    "special.balance, k_sf [FLOP]: operations of tensor cores in the time of one exponential",
    equals=gpu_rates.peak_flops / special_peak,
    reference=by_definition("rate over rate"),
    target=True,
)
scores = scope.declare(
    "special.score_flops, F_sc [FLOP]: operations of attention by score: queries by keys and scores by values, of "
    "heads of 128; unless given, 512",
    equals=number("512 FLOP"),
    bounds=POSITIVE,
    reference=cited(works.FLASH_ATTENTION_2, "sec. 4.1, FLOPs"),
)
attention_bound = scope.declare(
    "special.attention_share, s_sf [1 as %]: time of attention's exponentials over that of its products at the peak",
    equals=special_ratio / scores,
    reference=cited(
        "Shah et al. 2024, FlashAttention-3: Fast and Accurate Attention with Asynchrony and Low-precision", "sec. 3.1"
    ),
    target=True,
)
dot_ops = scope.declare(
    "dot.operations, F_dp [FLOP]: operations of the instruction that multiplies four bytes by four; unless given, 8",
    equals=number("8 FLOP"),
    reference=_MMA,
)
dot_peak = scope.declare(
    "dot.peak, P_dp [FLOP/(s*GPU) as TFLOP/(s*GPU)]: rate of 8-bit products on the vector lanes",
    equals=gpu_rates.multiprocessors * vector_lanes * dot_ops * gpu_rates.clock,
    reference=_THROUGHPUT,
    target=True,
)
pair_peak = scope.declare(
    "dot.pair_peak, P_d2 [FLOP/(s*GPU) as TFLOP/(s*GPU)]: rate of products of two 16-bit by two 8-bit numbers on the "
    "vector lanes",
    equals=dot_peak / 2,
    reference=_THROUGHPUT,
    target=True,
)
gpu_tensor_cores = scope.declare(
    "tensor_cores.gpu, N_TC [1/GPU]: tensor cores of a GPU",
    equals=gpu_rates.multiprocessors * tensor_cores,
    reference=_H100,
    target=True,
)
# Figures of merit.
efficiency = scope.declare(
    "efficiency.flops, e_F [FLOP/J]: operations by energy of dense 16-bit GEMMs under the power limit",
    equals=gpu_power.power_limited_peak_flops / gpu_power.power_limit,
    reference=by_definition("rate over power"),
    target=True,
)
byte_efficiency = scope.declare(
    "efficiency.bytes, e_B [byte/J]: bytes of memory by energy of their traffic alone",
    equals=1 / hbm.access_energy,
    reference=by_definition("inverse of the energy of a byte"),
    target=True,
)
energy_balance = scope.declare(
    "efficiency.balance, I_E [FLOP/byte]: operations by byte at which both take the same energy",
    equals=efficiency * hbm.access_energy,
    reference=cited("Choi, Bedard, Fowler and Vuduc 2013, A Roofline Model of Energy", "energy balance point"),
    target=True,
)
second_bits = scope.declare(
    "blocks.second_bits, w_2: bits of a scale of scales; unless given, none", equals=0, reference=_MX
)
second_size = scope.declare(
    "blocks.second_size, k_2: numbers that share a scale of scales; unless given, 1,024", equals=1024, bounds=POSITIVE,
    reference=_MX,
)  # fmt: skip
effective_bits = scope.declare(
    "blocks.bits, b_e: bits of a number with its share of a block's scale and of a scale of scales",
    equals=formats.bits + formats.scale_bits / formats.block_size + second_bits / second_size,
    reference=_MX,
    target=True,
)
