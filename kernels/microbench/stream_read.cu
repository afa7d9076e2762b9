// The sum of numbers, read once: what a kernel that streams its operand can reach at most.
//
// Launch: a few blocks per multiprocessor, block 512.
// Arguments: x (16-byte aligned), count (64 bits), parts (a double for each block), done (a word that is 0 before and
//   after), out. Sums are in double precision and always in the same order.
#include "prelude.cuh"

constexpr int AHEAD = 8;  // loads under way at once
constexpr int WARPS = 512 / 32;

DEVICE float sum_of(uint4 v) {
    return __uint_as_float(v.x) + __uint_as_float(v.y) + (__uint_as_float(v.z) + __uint_as_float(v.w));
}

// The block's sum, in thread 0.
DEVICE double sum_block(double v) {
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

KERNEL __launch_bounds__(512) stream_read(const float* x, u64 count, double* parts, u32* done, float* out) {
    __shared__ bool last;
    const uint4* data = reinterpret_cast<const uint4*>(x);
    const u64 pieces = count / 4, stride = u64(gridDim.x) * blockDim.x;
    u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    start_next_kernel();
    wait_for_previous_kernel();
    double sum = i < count % 4 ? double(x[pieces * 4 + i]) : 0.0;
    for (; i + (AHEAD - 1) * stride < pieces; i += AHEAD * stride) {
        uint4 v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            v[j] = load16_streamed(data + i + j * stride);
        float near = 0.0f;
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            near += sum_of(v[j]);
        sum += near;
    }
    for (; i < pieces; i += stride)
        sum += sum_of(load16_streamed(data + i));
    sum = sum_block(sum);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    double all = 0.0;
    for (int part = threadIdx.x; part < gridDim.x; part += blockDim.x)
        all += __ldcg(parts + part);
    all = sum_block(all);
    if (threadIdx.x == 0)
        *out = float(all);
}
