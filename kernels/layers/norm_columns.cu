// RMS norm of some columns of each row, in place: the QK norm of all heads together.
//
// Algorithm: RMSNorm [Zhang & Sennrich 2019]. Tiling: a CTA a row; the columns are read twice, the second time from L1.
//
// Options: ELEMENT (bf16, fp16, float), THREADS, VECTOR (8, for float 4: columns, first and width are multiples of it;
//   else 1).
// Launch: grid rows, CTA of THREADS, a multiple of 32.
// Arguments: x (rows x columns), weight (width), columns, first, width, epsilon.
#include "vectorization.cuh"

typedef VectorAccess<ELEMENT, VECTOR> Access;

KERNEL __launch_bounds__(THREADS)
norm_columns(ELEMENT* x, const ELEMENT* weight, int columns, int first, int width, float epsilon TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    ELEMENT* part = x + i64(blockIdx.x) * columns + first;
    float v[VECTOR], gain[VECTOR], sum = 0.0f;
    for (int at = threadIdx.x * VECTOR; at < width; at += THREADS * VECTOR) {
        Access::load(part + at, v);
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            sum = fmaf(v[i], v[i], sum);
    }
    const float inverse_rms = rsqrtf(reduce_cta<Sum>(sum) / width + epsilon);
    for (int at = threadIdx.x * VECTOR; at < width; at += THREADS * VECTOR) {
        Access::load(part + at, v);
        Access::load(weight + at, gain);
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            v[i] *= inverse_rms * gain[i];
        Access::store(part + at, v);
    }
}
