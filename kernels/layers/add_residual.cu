// out = residual + factor * norm(x): what a layer adds to the residual stream, normalized and scaled before.
//
// Algorithm: RMSNorm [Zhang & Sennrich 2019] behind a layer (post-norm), then the sum.
// Tiling: a CTA a row, CHUNKS_PER_THREAD vectors a thread in registers, so that memory is read once.
//
// Options: ELEMENT (bf16, fp16, float: of everything), NORM (0: no norm, 1: RMS norm), THREADS, CHUNKS_PER_THREAD,
//   VECTOR (8, for float 4: width and row starts are multiples of it; else 1).
// Launch: grid rows, CTA of THREADS, a multiple of 32 with THREADS * CHUNKS_PER_THREAD * VECTOR >= width.
// Arguments: x, weight (null without NORM), residual, out, width, epsilon, factor.
#include "vectorization.cuh"

typedef VectorAccess<ELEMENT, VECTOR> Access;

KERNEL __launch_bounds__(THREADS)
add_residual(const ELEMENT* x, const ELEMENT* weight, const ELEMENT* residual, ELEMENT* out, int width, float epsilon,
             float factor TRACE_PARAMETER) {
    TRACE_SPAN(0);
    float v[CHUNKS_PER_THREAD][VECTOR], gain[CHUNKS_PER_THREAD][VECTOR];
    const i64 row = i64(blockIdx.x) * width;
    launch_dependents();
    // The preceding kernel may write the weights: before the dependency resolves only L2, which sees that, gets them.
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
        if (NORM && at < width)
            prefetch_l2(weight + at);
    }
    wait_on_dependency();
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
        if (NORM && at < width)
            Access::load(weight + at, gain[c]);
    }
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
        if (at < width)
            Access::load(x + row + at, v[c]);
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            sum = at < width ? fmaf(v[c][i], v[c][i], sum) : sum;
    }
    float scale = factor;
    if (NORM)
        scale *= rsqrtf(reduce_cta<Sum>(sum) / width + epsilon);
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
        if (at >= width)
            continue;
        float before[VECTOR];
        Access::load(residual + row + at, before);
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            v[c][i] = fmaf(v[c][i] * scale, NORM ? gain[c][i] : 1.0f, before[i]);
        Access::store(out + row + at, v[c]);
    }
}
