// Softmax, or its logarithm, of rows.
//
// Options: NUMBER (bf16, fp16, float), LOGARITHM (0, 1), THREADS, CHUNKS, VECTOR (as normalize).
// Launch: grid rows, block THREADS, a multiple of 32; THREADS * CHUNKS * VECTOR >= width, or CHUNKS 0 for rows of
//   any width, which are read twice.
// Arguments: x, out (may be x), width.
#include "vectorization.cuh"

typedef Row<NUMBER, VECTOR> Numbers;

DEVICE float finish(float v, float most, float sum) {
    return LOGARITHM ? v - most - logf(sum) : exp2_fast((v - most) * LOG2_E) / sum;
}

#if CHUNKS
KERNEL __launch_bounds__(THREADS)
softmax(const NUMBER* x, NUMBER* out, int width) {
    float v[CHUNKS][VECTOR];
    const i64 row = i64(blockIdx.x) * width;
    start_next_kernel();
    wait_for_previous_kernel();
    float most = MINUS_INFINITY, sum = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
        if (at < width)
            Numbers::load(x + row + at, v[c]);
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            v[c][i] = at < width ? v[c][i] : MINUS_INFINITY;
            most = Maximum::join(most, v[c][i]);
        }
    }
    most = reduce_block<Maximum>(most);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            sum += exp2_fast((v[c][i] - most) * LOG2_E);
    sum = reduce_block<Sum>(sum);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = (c * THREADS + threadIdx.x) * VECTOR;
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            v[c][i] = finish(v[c][i], most, sum);
        if (at < width)
            Numbers::store(out + row + at, v[c]);
    }
}
#else
KERNEL __launch_bounds__(THREADS)
softmax(const NUMBER* x, NUMBER* out, int width) {
    const i64 row = i64(blockIdx.x) * width;
    start_next_kernel();
    wait_for_previous_kernel();
    float most = MINUS_INFINITY, sum = 0.0f, v[VECTOR];
    for (int at = threadIdx.x * VECTOR; at < width; at += THREADS * VECTOR) {
        Numbers::load(x + row + at, v);
        float now = most;
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            now = Maximum::join(now, v[i]);
        // Nothing but minus infinity so far: its distance to itself would not be a number.
        if (now == MINUS_INFINITY)
            continue;
        sum *= exp2_fast((most - now) * LOG2_E);
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            sum += exp2_fast((v[i] - now) * LOG2_E);
        most = now;
    }
    const float all = reduce_block<Maximum>(most);
    sum = reduce_block<Sum>(most == MINUS_INFINITY ? 0.0f : sum * exp2_fast((most - all) * LOG2_E));
    for (int at = threadIdx.x * VECTOR; at < width; at += THREADS * VECTOR) {
        Numbers::load(x + row + at, v);
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            v[i] = finish(v[i], all, sum);
        Numbers::store(out + row + at, v);
    }
}
#endif
