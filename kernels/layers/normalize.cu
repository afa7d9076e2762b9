// RMS norm or layer norm of rows, after adding them to the residual stream if there is one.
//
// Algorithm: RMSNorm [Zhang & Sennrich 2019] or LayerNorm [Ba et al. 2016]; the variance is the textbook two-pass one
//   (mean first, then squared deviations), over registers.
// Tiling: a CTA a row, CHUNKS_PER_THREAD vectors a thread in registers, so that memory is read once.
//
// Options: ELEMENT (bf16, fp16, float: of everything), LAYER_NORM (0: RMS norm, 1: layer norm), THREADS,
//   CHUNKS_PER_THREAD, VECTOR (8, for float 4: width and row starts are multiples of it; else 1).
// Launch: grid rows, CTA of THREADS, a multiple of 32 with THREADS * CHUNKS_PER_THREAD * VECTOR >= width; no dynamic
//   shared memory.
// Arguments: x, residual (null: none; else residual += x, rounded, and the norm is of the sum),
//   weight, bias (may be null; RMS norm has no bias), out (may be x), width, epsilon.
#include "vectorization.cuh"

typedef VectorAccess<ELEMENT, VECTOR> Access;

KERNEL __launch_bounds__(THREADS)
normalize(const ELEMENT* x, ELEMENT* residual, const ELEMENT* weight, const ELEMENT* bias, ELEMENT* out, int width,
          float epsilon TRACE_PARAMETER) {
    TRACE_SPAN(0);
    float v[CHUNKS_PER_THREAD][VECTOR], gain[CHUNKS_PER_THREAD][VECTOR];
    const i64 row = i64(blockIdx.x) * width;
    launch_dependents();
    // Weights may be what the preceding kernel writes (gamma + 1 of an adaptive norm): only L2, which sees its
    // writes, gets them before the dependency resolves. The loads then overlap with those of x.
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
        if (weight && at < width)
            prefetch_l2(weight + at);
    }
    wait_on_dependency();
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
        if (weight && at < width)
            Access::load(weight + at, gain[c]);
    }
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
        if (at < width) {
            Access::load(x + row + at, v[c]);
            if (residual) {
                float before[VECTOR];
                Access::load(residual + row + at, before);
#pragma unroll
                for (int i = 0; i < VECTOR; i++)
                    // The residual stream is stored rounded, and the norm is of the rounded sum.
                    v[c][i] = to_float(from_float<ELEMENT>(v[c][i] + before[i]));
                Access::store(residual + row + at, v[c]);
            }
        } else {
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                v[c][i] = 0.0f;
        }
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            sum += LAYER_NORM ? v[c][i] : v[c][i] * v[c][i];
    }
    float mean = reduce_cta<Sum>(sum) / width, variance = mean;
    if (LAYER_NORM) {
        float square = 0.0f;
#pragma unroll
        for (int c = 0; c < CHUNKS_PER_THREAD; c++)
#pragma unroll
            for (int i = 0; i < VECTOR; i++) {
                const bool valid = (c * THREADS + threadIdx.x) * VECTOR < width;
                const float distance = valid ? v[c][i] - mean : 0.0f;
                square = fmaf(distance, distance, square);
            }
        variance = reduce_cta<Sum>(square) / width;
    } else {
        mean = 0.0f;
    }
    const float inverse_deviation = rsqrtf(variance + epsilon);
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
        if (at >= width)
            continue;
        float shift[VECTOR];
        if (bias)
            Access::load(bias + at, shift);
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            float y = (v[c][i] - mean) * inverse_deviation;
            y = weight ? y * gain[c][i] : y;
            v[c][i] = bias ? y + shift[i] : y;
        }
        Access::store(out + row + at, v[c]);
    }
}
