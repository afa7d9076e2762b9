// low = A x of each row's LoRA adapter, of rows of x that may pass through RMSNorm first; zeros of adapter 0, none.
//
// Algorithm: the first of two products (BGMV shrink [Chen et al. 2023, Punica]): rows choose their factors by index.
// Tiling: a CTA computes RANKS_PER_CTA elements of one row of low. Its threads hold their part of the rows of A in
//   registers, loaded before the preceding kernel has ended, then read x once and reduce all sums together.
//
// Options: ELEMENT (bf16, fp16: of everything), INPUTS (a multiple of 8), RANK (a multiple of RANKS_PER_CTA),
//   RANKS_PER_CTA, THREADS, CHUNKS_PER_THREAD (of 8 inputs), NORM, ADAPTERS_READY (1: the preceding kernel does not
//   write adapters).
// Launch: grid (RANK / RANKS_PER_CTA, rows), CTA of THREADS, a multiple of 32 with
//   THREADS * CHUNKS_PER_THREAD * 8 >= INPUTS; no dynamic shared memory.
// Arguments: x (rows x INPUTS), gain (INPUTS; null without NORM), a (adapters x RANK x INPUTS), adapters (rows),
//   low (rows x RANK), epsilon.
#include "prelude.cuh"

constexpr int WARPS = THREADS / 32, SUMS = RANKS_PER_CTA + NORM;

// Adds the dot product of eight elements.
DEVICE float dot8(const uint4& a, const float (&x)[8], float sum) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 pair = unpack<ELEMENT>(word(a, i));
        sum = fmaf(pair.x, x[2 * i], sum);
        sum = fmaf(pair.y, x[2 * i + 1], sum);
    }
    return sum;
}

KERNEL __launch_bounds__(THREADS)
lora_shrink(const ELEMENT* x, const ELEMENT* __restrict__ gain, const ELEMENT* __restrict__ a, const int* adapters,
            ELEMENT* low, float epsilon TRACE_PARAMETER) {
    TRACE_SPAN(0);
    __shared__ float partial_sums[WARPS][SUMS];
    const int row = blockIdx.y, first = blockIdx.x * RANKS_PER_CTA;
    launch_dependents();
    if (!ADAPTERS_READY)
        wait_on_dependency();
    const int adapter = adapters[row];
    const ELEMENT* factors = a + (i64(adapter) * RANK + first) * INPUTS;
    uint4 weights[RANKS_PER_CTA][CHUNKS_PER_THREAD], gains[CHUNKS_PER_THREAD];
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        const int at = (c * THREADS + threadIdx.x) * 8;
        const bool valid = adapter > 0 && at < INPUTS;
#pragma unroll
        for (int r = 0; r < RANKS_PER_CTA; r++)
            weights[r][c] = valid ? load16_read_only(factors + i64(r) * INPUTS + at) : zero16();
        if (NORM)
            gains[c] = valid ? load16_read_only(gain + at) : zero16();
    }
    if (ADAPTERS_READY)
        wait_on_dependency();
    if (adapter <= 0) {
        if (threadIdx.x < RANKS_PER_CTA)
            low[i64(row) * RANK + first + threadIdx.x] = from_float<ELEMENT>(0.0f);
        return;
    }
    float sums[SUMS] = {};
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        const int at = (c * THREADS + threadIdx.x) * 8;
        const uint4 words = at < INPUTS ? load16(x + i64(row) * INPUTS + at) : zero16();
        float v[8];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 pair = unpack<ELEMENT>(word(words, i));
            v[2 * i] = pair.x, v[2 * i + 1] = pair.y;
        }
        if (NORM) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float2 pair = unpack<ELEMENT>(word(gains[c], i));
                sums[SUMS - 1] = fmaf(v[2 * i], v[2 * i], sums[SUMS - 1]);
                sums[SUMS - 1] = fmaf(v[2 * i + 1], v[2 * i + 1], sums[SUMS - 1]);
                v[2 * i] *= pair.x, v[2 * i + 1] *= pair.y;
            }
        }
#pragma unroll
        for (int r = 0; r < RANKS_PER_CTA; r++)
            sums[r] = dot8(weights[r][c], v, sums[r]);
    }
#pragma unroll
    for (int s = 0; s < SUMS; s++) {
        sums[s] = reduce_warp<Sum>(sums[s]);
        if (threadIdx.x % 32 == 0)
            partial_sums[threadIdx.x / 32][s] = sums[s];
    }
    __syncthreads();
    if (threadIdx.x >= RANKS_PER_CTA)
        return;
    float sum = 0.0f, square = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        sum += partial_sums[w][threadIdx.x];
        if (NORM)
            square += partial_sums[w][SUMS - 1];
    }
    if (NORM)
        sum *= rsqrtf(square / INPUTS + epsilon);
    low[i64(row) * RANK + first + threadIdx.x] = from_float<ELEMENT>(sum);
}
