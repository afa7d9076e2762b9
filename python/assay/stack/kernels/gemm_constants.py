"""Constants of GEMMs, fitted per accelerator.

Rates are shares of the data sheet's, so that they hold for another clock or another memory, and
an accelerator without measurements can borrow them. `docs/design/kernel-model.md` says how they
were fitted and how well they predict; `assay.stack.kernels.gemm` declares GEMMs on them.
"""

from __future__ import annotations

from assay.model import Scope, Variable, by_definition, number
from assay.stack.kernels import fitted

scope = Scope("kernels.gemm", "GEMMs")


def _constant(heading: str, bounds: fitted.Bounds = (0, None)) -> Variable:
    return fitted.constant(scope, heading, bounds)


launch_time = _constant("launch_time, t_0 [s as us]: time of an empty kernel in a CUDA graph")
tile_share = _constant("tile_share, r_t: rate on a tile whose operands are in shared memory, over the peak")
sustained_share = _constant("sustained_share, r_P: sustained rate under the power limit, over the peak")
eight_bit_share = _constant("eight_bit_share, r_8: sustained share of 8-bit GEMMs over that of 16-bit ones")
eight_bit_step = _constant("eight_bit_step, s_8: least work of a tile in 8 bits over that in 16 bits")
cast_time = _constant("cast_time, t_8 [s as us]: time of casting activations to 8 bits, besides their bytes")
cast_share = _constant("cast_share, r_c: rate of casting activations to 8 bits, over the memory's")
cast_row_time = _constant("cast_row_time, tau_8 [s as ns]: time of casting a row of activations, besides its bytes")
step_work = _constant(
    "step_work, w_k [FLOP]: FLOPs per K step below which the time of a tile stays constant, at peak rate"
)
ingest_intensity = _constant("ingest_intensity, I_SM [FLOP/byte]: peak over the rate at which an SM loads operands")
cache_intensity = _constant("cache_intensity, I_L2 [FLOP/byte]: peak over the aggregate L2 bandwidth to all SMs")
read_share = _constant("read_share, r_r: achieved memory bandwidth in large GEMMs, over the data sheet's")
overlap_exponent = _constant("overlap_exponent, p: overlap of loads with computation; higher hides more", (1, None))
block_time = _constant("block_time, tau_b [s as ns]: time to launch one more CTA")
split_time = _constant("split_time, t_s [s as us]: time of the split-K reduction")
write_exposure = _constant(
    "write_exposure, o_w: share of the epilogue's writes that computation does not hide", fitted.SHARE
)
tail_cost = _constant("tail_cost, a: minimum cost of a partial last wave, in waves", fitted.SHARE)
throttle_depth = _constant("throttle_depth, h: slowdown of kernels long enough to throttle the clock")
throttle_time = scope.declare(
    "throttle_time, tau_h [s as ms]: time of a kernel, measured alone, that has half of that slowdown; next to none "
    "where kernels follow each other for long",
    equals=number("0.002 s"),
    bounds=(0, None),
    reference=by_definition("the power controller averages: the clock drops over milliseconds"),
)
reach_share = _constant("reach_share, r_h: operand bytes that stay in L2, over its capacity")
ramp = _constant("ramp, x_0 [byte as kB]: size at which a transfer reaches half its rate")
spread = fitted.spread(scope)
eight_bit_spread = fitted.spread(scope, "eight_bit_spread", "of 8-bit GEMMs")
