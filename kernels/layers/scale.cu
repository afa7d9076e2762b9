// x = factor * x, in place; with SOFTCAP then bounded: x = softcap * tanh(x / softcap).
//
// Algorithm: elementwise; the softcap is that of Gemma 2 [Gemma Team 2024]. Tiling: one vector a thread, no reuse.
//
// Options: ELEMENT (bf16, fp16, float), SOFTCAP (0, 1), VECTOR (8, for float 4: count is a multiple of it; else 1).
// Launch: grid ceil(count / VECTOR / CTA), CTA of any size.
// Arguments: x, count, factor, softcap.
#include "vectorization.cuh"

typedef VectorAccess<ELEMENT, VECTOR> Access;

KERNEL scale(ELEMENT* x, i64 count, float factor, float softcap TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    const i64 at = (i64(blockIdx.x) * blockDim.x + threadIdx.x) * VECTOR;
    if (at >= count)
        return;
    float v[VECTOR];
    Access::load(x + at, v);
#pragma unroll
    for (int i = 0; i < VECTOR; i++) {
        v[i] *= factor;
        if (SOFTCAP)
            v[i] = softcap * tanhf(v[i] / softcap);
    }
    Access::store(x + at, v);
}
