// RMS norm or layer norm of rows, after adding them to a residual stream if there is one.
//
// Options: NUMBER (bf16, fp16, float: of everything), LAYER (0: RMS norm, 1: layer norm), THREADS, CHUNKS,
//   VECTOR (8, for float 4: width and row starts are multiples of it; else 1).
// Launch: grid rows, block THREADS, a multiple of 32 with THREADS * CHUNKS * VECTOR >= width; no dynamic shared memory.
// Arguments: x, residual (null: none; else residual += x, rounded, and the norm is of the sum),
//   weight, bias (may be null; RMS norm has no bias), out (may be x), width, epsilon.
#include "vectorization.cuh"

typedef Row<NUMBER, VECTOR> Numbers;

KERNEL __launch_bounds__(THREADS)
normalize(const NUMBER* x, NUMBER* residual, const NUMBER* __restrict__ weight, const NUMBER* __restrict__ bias,
                 NUMBER* out, int width, float epsilon) {
    float v[CHUNKS][VECTOR], gain[CHUNKS][VECTOR];
    const i64 row = i64(blockIdx.x) * width;
    start_next_kernel();
    // Weights are no kernel's output: they may come before the wait.
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
        if (weight && at < width)
            Numbers::load(weight + at, gain[c]);
    }
    wait_for_previous_kernel();
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
        if (at < width) {
            Numbers::load(x + row + at, v[c]);
            if (residual) {
                float before[VECTOR];
                Numbers::load(residual + row + at, before);
#pragma unroll
                for (int i = 0; i < VECTOR; i++)
                    // The stream is kept rounded, and the norm is of what is kept.
                    v[c][i] = to_float(from_float<NUMBER>(v[c][i] + before[i]));
                Numbers::store(residual + row + at, v[c]);
            }
        } else {
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                v[c][i] = 0.0f;
        }
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            sum += LAYER ? v[c][i] : v[c][i] * v[c][i];
    }
    float mean = reduce_block<Sum>(sum) / width, variance = mean;
    if (LAYER) {
        float square = 0.0f;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
#pragma unroll
            for (int i = 0; i < VECTOR; i++) {
                const bool valid = (c * THREADS + threadIdx.x) * VECTOR < width;
                const float distance = valid ? v[c][i] - mean : 0.0f;
                square = fmaf(distance, distance, square);
            }
        variance = reduce_block<Sum>(square) / width;
    } else {
        mean = 0.0f;
    }
    const float by = rsqrtf(variance + epsilon);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
        if (at >= width)
            continue;
        float shift[VECTOR];
        if (bias)
            Numbers::load(bias + at, shift);
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            float y = (v[c][i] - mean) * by;
            y = weight ? y * gain[c][i] : y;
            v[c][i] = bias ? y + shift[i] : y;
        }
        Numbers::store(out + row + at, v[c]);
    }
}
