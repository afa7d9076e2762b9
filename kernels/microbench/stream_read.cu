// Sums an array that is read once: the peak bandwidth of reading.
//
// Algorithm: a read-only variant of STREAM [McCalpin 1995], as a two-level reduction: the last CTA to finish sums the
//   partials. Tiling: grid stride, eight 16-byte loads in flight a thread.
// Departures: sums are in double precision and always in the same order.
//
// Launch: a few CTAs per SM, CTA of 512.
// Arguments: x (16-byte aligned), count (64 bits), partials (a double for each CTA), finished_ctas (a word that is 0
//   before and after), out.
#include "prelude.cuh"

constexpr int LOADS_IN_FLIGHT = 8;
constexpr int WARPS = 512 / 32;

DEVICE float sum_of(uint4 v) {
    return __uint_as_float(v.x) + __uint_as_float(v.y) + (__uint_as_float(v.z) + __uint_as_float(v.w));
}

// The sum over the CTA.
DEVICE double sum_cta(double v) {
    __shared__ double sums[WARPS];
    for (int offset = 16; offset; offset >>= 1)
        v += __shfl_down_sync(~0u, v, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = v;
    __syncthreads();
    double all = 0.0;
    for (int warp = 0; warp < WARPS; warp++)
        all += sums[warp];
    return all;
}

KERNEL __launch_bounds__(512) stream_read(const float* x, u64 count, double* partials, u32* finished_ctas, float* out) {
    __shared__ bool last;
    const uint4* data = reinterpret_cast<const uint4*>(x);
    const u64 vectors = count / 4, stride = u64(gridDim.x) * blockDim.x;
    u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    launch_dependents();
    wait_on_dependency();
    double sum = i < count % 4 ? double(x[vectors * 4 + i]) : 0.0;
    for (; i + (LOADS_IN_FLIGHT - 1) * stride < vectors; i += LOADS_IN_FLIGHT * stride) {
        uint4 v[LOADS_IN_FLIGHT];
#pragma unroll
        for (int j = 0; j < LOADS_IN_FLIGHT; j++)
            v[j] = load16_streaming(data + i + j * stride);
        float batch_sum = 0.0f;
#pragma unroll
        for (int j = 0; j < LOADS_IN_FLIGHT; j++)
            batch_sum += sum_of(v[j]);
        sum += batch_sum;
    }
    for (; i < vectors; i += stride)
        sum += sum_of(load16_streaming(data + i));
    sum = sum_cta(sum);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(finished_ctas, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    double all = 0.0;
    for (int cta = threadIdx.x; cta < gridDim.x; cta += blockDim.x)
        all += __ldcg(partials + cta);
    all = sum_cta(all);
    if (threadIdx.x == 0)
        *out = float(all);
}
