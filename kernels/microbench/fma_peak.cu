// Every number times a factor plus an addend, many times over in registers: what a kernel that computes in single
// precision can reach at most.
//
// Launch: grid ceil(count / 4 / block), any block.
// Arguments: x, out, count (64 bits), steps, factor, addend.
#include "prelude.cuh"

constexpr int HELD = 4;  // numbers of a thread: as many sums that do not wait for each other

KERNEL fma_peak(const float* x, float* out, u64 count, int steps, float factor, float addend) {
    const u64 threads = u64(gridDim.x) * blockDim.x, first = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    start_next_kernel();
    wait_for_previous_kernel();
    float v[HELD];
#pragma unroll
    for (int j = 0; j < HELD; j++)
        v[j] = first + j * threads < count ? x[first + j * threads] : 0.0f;
#pragma unroll 8
    for (int step = 0; step < steps; step++)
#pragma unroll
        for (int j = 0; j < HELD; j++)
            v[j] = fmaf(v[j], factor, addend);
#pragma unroll
    for (int j = 0; j < HELD; j++)
        if (first + j * threads < count)
            out[first + j * threads] = v[j];
}
