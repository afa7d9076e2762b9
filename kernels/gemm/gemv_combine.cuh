// The combine of a GEMV: dot products of lanes become those of a warp.
#pragma once
#include "prelude.cuh"

// Transposing warp reduction of COUNT values: lane l ends with the sum of value l / (32 / COUNT), in element 0.
template <int COUNT> DEVICE void reduce_partials(float (&v)[COUNT]) {
    const int lane = threadIdx.x % 32;
    int remaining = COUNT;
#pragma unroll
    for (int offset = 16; offset; offset >>= 1) {
        const bool high = lane & offset;
        if (remaining > 1) {
            remaining /= 2;
#pragma unroll
            for (int i = 0; i < COUNT / 2; i++)
                if (i < remaining) {
                    const float own = high ? v[i + remaining] : v[i], other = high ? v[i] : v[i + remaining];
                    v[i] = own + __shfl_xor_sync(~0u, other, offset);
                }
        } else {
            v[0] += __shfl_xor_sync(~0u, v[0], offset);
        }
    }
}
