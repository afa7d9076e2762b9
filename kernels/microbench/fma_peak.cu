// x = x * factor + addend, `steps` times in registers: the peak FMA rate in single precision.
//
// Algorithm: the usual peak-FLOP/s microbenchmark: independent chains of dependent FMAs. Tiling: CHAINS chains a
//   thread.
//
// Launch: grid ceil(count / 4 / CTA), CTA of any size.
// Arguments: x, out, count (64 bits), steps, factor, addend.
#include "prelude.cuh"

constexpr int CHAINS = 4;  // independent FMA chains of a thread, which hide the latency of each other

KERNEL fma_peak(const float* x, float* out, u64 count, int steps, float factor, float addend) {
    const u64 threads = u64(gridDim.x) * blockDim.x, first = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    launch_dependents();
    wait_on_dependency();
    float v[CHAINS];
#pragma unroll
    for (int j = 0; j < CHAINS; j++)
        v[j] = first + j * threads < count ? x[first + j * threads] : 0.0f;
#pragma unroll 8
    for (int step = 0; step < steps; step++)
#pragma unroll
        for (int j = 0; j < CHAINS; j++)
            v[j] = fmaf(v[j], factor, addend);
#pragma unroll
    for (int j = 0; j < CHAINS; j++)
        if (first + j * threads < count)
            out[first + j * threads] = v[j];
}
