"""Residency: how many warps of a kernel a multiprocessor holds at once, and how its shared memory is read.

Registers, shared memory and places for blocks are handed out in whole granules; whichever runs out first decides how
many blocks are resident, and with them how many warps the schedulers can choose from. Shared memory is cut into banks
that each serve one word in a cycle: lanes that ask one bank for different words wait for each other.
"""

from __future__ import annotations

from assay.model import POSITIVE, Scope, Variable, by_definition, ceil, cited, equal, floor, minimum, number, where
from assay.stack import works
from assay.stack.gpu import rates as gpu_rates
from assay.stack.kernels import gemm_constants

scope = Scope("multiprocessor", "Residency, latency hiding and caches of a multiprocessor")

_LIMITS = cited(works.CUDA_GUIDE, "compute capabilities: technical specifications per compute capability")
_OCCUPANCY = cited("NVIDIA CUDA C++ Best Practices Guide 12", "sec. 11, execution configuration: calculating occupancy")
_GRANULES = cited("NVIDIA CUDA Toolkit 12, cuda_occupancy.h", "register and shared memory allocation granularity")
_BANKS = cited(works.CUDA_GUIDE, "compute capability 5.x and later: shared memory, 32 banks of 32-bit words")
_URN = cited("Feller 1968, An Introduction to Probability Theory, volume 1, 3rd edition", "sec. IV.2, occupied cells")
_ON_CHIP = by_definition("what one multiprocessor has, by multiprocessors")
_WORD = number("4 byte")


def _datum(heading: str, bounds: tuple[float | str | None, float | str | None] = POSITIVE) -> Variable:
    return scope.declare(heading, bounds=bounds, reference=_LIMITS, boundary="primitive")


def _shape(heading: str) -> Variable:
    return scope.declare(heading, bounds=POSITIVE, reference=_OCCUPANCY, boundary="scenario")


lanes = scope.declare(
    "warp.lanes, n_l: threads of a warp; unless given, 32", equals=32, bounds=POSITIVE, reference=_LIMITS
)
most_warps = _datum("limit.warps, W_max: warps that a multiprocessor holds at most")
most_blocks = _datum("limit.blocks, B_max: blocks that a multiprocessor holds at most")
register_file = _datum("registers.file, R_SM: registers of 32 bits of a multiprocessor")
shared_capacity = _datum("shared.capacity, S_SM [byte as KiB]: shared memory of a multiprocessor that blocks may use")
partitions = scope.declare(
    "partitions, n_p: schedulers of a multiprocessor, each with its share of the registers; unless given, 4",
    equals=4,
    bounds=POSITIVE,
    reference=_LIMITS,
)
threads = _shape("block.threads, n_t: threads of a block")
thread_registers = _shape("thread.registers, r_t: registers of a thread")
block_shared = scope.declare(
    "block.shared, s_b [byte as KiB]: shared memory that a block asks for", reference=_OCCUPANCY, boundary="scenario"
)
block_warps = scope.declare(
    "block.warps, w_b: warps of a block", equals=ceil(threads / lanes), bounds=POSITIVE, reference=_OCCUPANCY
)
register_granule = scope.declare(
    "registers.granule, g_r: registers that a warp is given at a time; unless given, 256",
    equals=256,
    bounds=POSITIVE,
    reference=_GRANULES,
)
warp_registers = scope.declare(
    "warp.registers, r_w: registers that a warp is given",
    equals=ceil(thread_registers * lanes / register_granule) * register_granule,
    bounds=POSITIVE,
    reference=_GRANULES,
)
warps_by_registers = scope.declare(
    "warps.by_registers, W_r: warps that the registers are enough for: every scheduler has its own",
    equals=partitions * floor(register_file / partitions / warp_registers),
    reference=_GRANULES,
)
shared_reserved = scope.declare(
    "shared.reserved, s_0 [byte]: shared memory of a block that the system keeps; unless given, 1 KiB",
    equals=number("1024 byte"),
    reference=_GRANULES,
)
shared_granule = scope.declare(
    "shared.granule, g_s [byte]: shared memory that a block is given at a time; unless given, 128 bytes",
    equals=number("128 byte"),
    bounds=POSITIVE,
    reference=_GRANULES,
)
shared_given = scope.declare(
    "block.shared_given, s_g [byte as KiB]: shared memory that a block is given",
    equals=ceil((block_shared + shared_reserved) / shared_granule) * shared_granule,
    bounds=POSITIVE,
    reference=_GRANULES,
)
blocks_by_warps = scope.declare(
    "blocks.by_warps, B_w: blocks that the places for warps are enough for",
    equals=floor(most_warps / block_warps),
    reference=_OCCUPANCY,
)
blocks_by_registers = scope.declare(
    "blocks.by_registers, B_r: blocks that the registers are enough for",
    equals=floor(warps_by_registers / block_warps),
    reference=_OCCUPANCY,
)
blocks_by_shared = scope.declare(
    "blocks.by_shared, B_s: blocks that the shared memory is enough for",
    equals=floor(shared_capacity / shared_given),
    reference=_OCCUPANCY,
)
blocks = scope.declare(
    "blocks.resident, B: blocks that a multiprocessor holds at once",
    equals=minimum(most_blocks, blocks_by_warps, blocks_by_registers, blocks_by_shared),
    reference=_OCCUPANCY,
    target=True,
)
scope.inequality("block.fits", blocks >= 1, "one block fits a multiprocessor", reference=_OCCUPANCY)
warps = scope.declare(
    "warps.resident, W: warps that a multiprocessor holds at once",
    equals=blocks * block_warps,
    reference=_OCCUPANCY,
    target=True,
)
occupancy = scope.declare(
    "occupancy, o_SM [1 as %]: resident warps over those that a multiprocessor could hold",
    equals=warps / most_warps,
    bounds=(0, 1),
    reference=_OCCUPANCY,
    target=True,
)
register_share = scope.declare(
    "registers.share, s_R [1 as %]: share of the registers that resident warps were given",
    equals=warps * warp_registers / register_file,
    bounds=(0, 1),
    reference=_OCCUPANCY,
    target=True,
)
# What a GPU holds on its die.
register_bytes = scope.declare(
    "registers.bytes, C_R [byte/GPU as MiB/GPU]: registers of a GPU",
    equals=gpu_rates.multiprocessors * register_file * _WORD,
    reference=_ON_CHIP,
    target=True,
)
shared_bytes = scope.declare(
    "shared.bytes, C_S [byte/GPU as MiB/GPU]: shared memory of a GPU",
    equals=gpu_rates.multiprocessors * shared_capacity,
    reference=_ON_CHIP,
    target=True,
)
on_chip_bytes = scope.declare(
    "on_chip.bytes, C_chip [byte/GPU as MiB/GPU]: registers, shared memory and second-level cache of a GPU",
    equals=register_bytes + shared_bytes + gpu_rates.cache_capacity,
    reference=_ON_CHIP,
    target=True,
)
# Banks.
banks = scope.declare(
    "banks.count, n_b: banks of shared memory; unless given, 32", equals=32, bounds=POSITIVE, reference=_BANKS
)
stride = scope.declare(
    "banks.stride, k_b: words between the addresses of neighboring lanes; unless given, 1",
    equals=1,
    bounds=POSITIVE,
    reference=_BANKS,
)
_shares = [where(equal(stride / 2**p, floor(stride / 2**p)), 2, 1) for p in range(1, 6)]
conflict = scope.declare(
    "banks.conflict, k_c: accesses that a warp's access is split into: the greatest common divisor of the stride and "
    "32 banks",
    equals=minimum(_shares[0] * _shares[1] * _shares[2] * _shares[3] * _shares[4], banks),
    bounds=(1, None),
    reference=_BANKS,
    target=True,
)
touched = scope.declare(
    "banks.touched, n_tb: banks that lanes at random addresses touch, on average",
    equals=banks * (1 - (1 - 1 / banks) ** lanes),
    reference=_URN,
    target=True,
)
shared_rate = scope.declare(
    "shared.rate, b_S [byte]: bytes of shared memory that a multiprocessor reads in a cycle, at this stride",
    equals=banks * _WORD / conflict,
    bounds=POSITIVE,
    reference=_BANKS,
    target=True,
)
shared_bandwidth = scope.declare(
    "shared.bandwidth, B_S [byte/(s*GPU) as TB/(s*GPU)]: rate of all shared memory of a GPU at the boost clock",
    equals=gpu_rates.multiprocessors * shared_rate * gpu_rates.clock,
    reference=_BANKS,
    target=True,
)
scope.equation(
    gemm_constants.ingest_intensity,
    gpu_rates.flops_per_cycle / shared_rate,
    name="ingest_intensity",
    meaning="operands of tensor cores come through the banks of shared memory",
    reference=_BANKS,
)
