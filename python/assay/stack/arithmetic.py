"""Arithmetic units: how many operations a multiprocessor does in a cycle, by format, and in how much silicon.

A tensor core multiplies small matrices: in each cycle it does a fixed number of multiply-adds of 16-bit numbers.
Numbers of half the width fit twice into the same operands; a multiplier grows with the square of its fraction, which
is why narrow formats are cheap. Beside them are lanes of single precision, one multiply-add each.
"""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited, number
from assay.stack import works
from assay.stack.gpu import rates as gpu_rates

scope = Scope("arithmetic", "Arithmetic units of a multiprocessor")

_H100 = cited(works.H100, "tensor cores and Table 3")
_MMA = cited("NVIDIA Parallel Thread Execution ISA 8", "matrix multiply-accumulate instructions: shapes m, n and k")
_MULTIPLIER = cited(works.CMOS_VLSI, "sec. 11.9, multiplication: partial products")
_AREA = cited(
    "Zhang et al. 2024, LLMCompass: Enabling Efficient Hardware Design for Large Language Model Inference, ISCA",
    "area model: floating-point units scale with the square of the fraction",
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
