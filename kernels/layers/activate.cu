// out = activation(x) + residual, elementwise: the epilogue of a GEMM that could not fuse it.
//
// Algorithm: SiLU and GELU [Hendrycks & Gimpel 2016], exact or by tanh. Tiling: one vector a thread.
//
// Options: ELEMENT (bf16, fp16, float: of everything), ACTIVATION (codes.cuh; not gated),
//   VECTOR (8, for float 4: count and addresses are multiples of it; else 1).
// Launch: grid ceil(count / VECTOR / CTA), CTA of any size.
// Arguments: x, residual (null: none), out (may be x or residual), count.
#include "codes.cuh"
#include "vectorization.cuh"

typedef VectorAccess<ELEMENT, VECTOR> Access;

DEVICE float activation(float v) {
    if (ACTIVATION == Activation::Silu)
        return v / (1.0f + expf(-v));
    if (ACTIVATION == Activation::Gelu)
        return 0.5f * v * (1.0f + erff(v * 0.70710678118654752440f));
    if (ACTIVATION == Activation::GeluTanh)
        return 0.5f * v * (1.0f + tanhf(0.79788456080286535588f * (v + 0.044715f * v * v * v)));
    if (ACTIVATION == Activation::Relu)
        return v < 0.0f ? 0.0f : v;  // propagates NaN
    if (ACTIVATION == Activation::Tanh)
        return tanhf(v);
    if (ACTIVATION == Activation::Sigmoid)
        return 1.0f / (1.0f + expf(-v));
    return v;
}

KERNEL activate(const ELEMENT* x, const ELEMENT* residual, ELEMENT* out, int count TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    const i64 at = (i64(blockIdx.x) * blockDim.x + threadIdx.x) * VECTOR;
    if (at >= count)
        return;
    float v[VECTOR], addend[VECTOR];
    Access::load(x + at, v);
    if (residual)
        Access::load(residual + at, addend);
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        v[i] = activation(v[i]) + (residual ? addend[i] : 0.0f);
    Access::store(out + at, v);
}
