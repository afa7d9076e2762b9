// Prefix sums over a CTA: warps scan by shuffles [Hillis & Steele 1986], and each thread adds the warps before its own.
#pragma once
#include "prelude.cuh"

// The sum over the threads before this one, of CTA_THREADS, and that of all.
template <int CTA_THREADS> DEVICE u32 exclusive_sum(u32 value, u32& total) {
    __shared__ u32 warp_totals[CTA_THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 inclusive = value;
#pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
        const u32 other = __shfl_up_sync(~0u, inclusive, offset);
        inclusive += lane >= offset ? other : 0;
    }
    if (lane == 31)
        warp_totals[warp] = inclusive;
    __syncthreads();
    total = 0;
    for (int w = 0; w < CTA_THREADS / 32; w++) {
        inclusive += w < warp ? warp_totals[w] : 0;
        total += warp_totals[w];
    }
    // The next sum uses the same memory.
    __syncthreads();
    return inclusive - value;
}
