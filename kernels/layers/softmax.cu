// Softmax, or log-softmax, of rows.
//
// Algorithm: safe softmax with the row in registers; rows of any width use online softmax [Milakov & Gimelshein 2018].
// Tiling: a CTA a row. Rows that fit are read once, CHUNKS_PER_THREAD vectors a thread in registers; others are read
//   twice.
//
// Options: ELEMENT (bf16, fp16, float), LOG_SOFTMAX (0, 1), THREADS, CHUNKS_PER_THREAD, VECTOR (as normalize.cu).
// Launch: grid rows, CTA of THREADS, a multiple of 32; THREADS * CHUNKS_PER_THREAD * VECTOR >= width, or
//   CHUNKS_PER_THREAD 0 for rows of any width.
// Arguments: x, out (may be x), width.
#include "vectorization.cuh"

typedef VectorAccess<ELEMENT, VECTOR> Access;

DEVICE float epilogue(float v, float row_max, float sum) {
    return LOG_SOFTMAX ? v - row_max - logf(sum) : exp2_approx((v - row_max) * LOG2_E) / sum;
}

#if CHUNKS_PER_THREAD
KERNEL __launch_bounds__(THREADS)
softmax(const ELEMENT* x, ELEMENT* out, int width) {
    float v[CHUNKS_PER_THREAD][VECTOR];
    const i64 row = i64(blockIdx.x) * width;
    launch_dependents();
    wait_on_dependency();
    float row_max = MINUS_INFINITY, sum = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
        if (at < width)
            Access::load(x + row + at, v[c]);
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            v[c][i] = at < width ? v[c][i] : MINUS_INFINITY;
            row_max = Maximum::combine(row_max, v[c][i]);
        }
    }
    row_max = reduce_cta<Maximum>(row_max);
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++)
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            sum += exp2_approx((v[c][i] - row_max) * LOG2_E);
    sum = reduce_cta<Sum>(sum);
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            v[c][i] = epilogue(v[c][i], row_max, sum);
        if (at < width)
            Access::store(out + row + at, v[c]);
    }
}
#else
KERNEL __launch_bounds__(THREADS)
softmax(const ELEMENT* x, ELEMENT* out, int width) {
    const i64 row = i64(blockIdx.x) * width;
    launch_dependents();
    wait_on_dependency();
    float row_max = MINUS_INFINITY, sum = 0.0f, v[VECTOR];
    for (int at = threadIdx.x * VECTOR; at < width; at += THREADS * VECTOR) {
        Access::load(x + row + at, v);
        float new_max = row_max;
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            new_max = Maximum::combine(new_max, v[i]);
        // Nothing but -inf so far: -inf minus -inf would be NaN.
        if (new_max == MINUS_INFINITY)
            continue;
        sum *= exp2_approx((row_max - new_max) * LOG2_E);
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            sum += exp2_approx((v[i] - new_max) * LOG2_E);
        row_max = new_max;
    }
    const float cta_max = reduce_cta<Maximum>(row_max);
    sum = reduce_cta<Sum>(row_max == MINUS_INFINITY ? 0.0f : sum * exp2_approx((row_max - cta_max) * LOG2_E));
    for (int at = threadIdx.x * VECTOR; at < width; at += THREADS * VECTOR) {
        Access::load(x + row + at, v);
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            v[i] = epilogue(v[i], cta_max, sum);
        Access::store(out + row + at, v);
    }
}
#endif
