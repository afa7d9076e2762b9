// out = residual + sum over a token's experts of weight * output + sigmoid(gate) * shared.
//
// Algorithm: the weighted sum of a mixture of experts [Shazeer et al. 2017], with shared experts [Dai et al. 2024].
// Tiling: one vector a thread, no reuse.
//
// Options: ELEMENT (bf16, fp16, float), VECTOR (8, for float 4: columns is a multiple of it; else 1).
// Launch: grid (ceil(columns / VECTOR / CTA), rows), CTA of any size.
// Arguments: outputs (rows x top_k x columns), weights (rows x top_k, float), residual (may be null), shared (may be
//   null), gates (a logit for each row, float; null: shared counts fully), out, columns, top_k.
#include "vectorization.cuh"

typedef VectorAccess<ELEMENT, VECTOR> Access;

KERNEL combine_experts(const ELEMENT* outputs, const float* weights, const ELEMENT* residual, const ELEMENT* shared,
                       const float* gates, ELEMENT* out, int columns, int top_k TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    const int at = (blockIdx.x * blockDim.x + threadIdx.x) * VECTOR;
    if (at >= columns)
        return;
    const i64 row = blockIdx.y, index = row * columns + at;
    float sums[VECTOR] = {}, v[VECTOR];
    auto add = [&](const ELEMENT* from, float factor) {
        Access::load(from, v);
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            sums[i] = fmaf(factor, v[i], sums[i]);
    };
    for (int k = 0; k < top_k; k++)
        if (weights[row * top_k + k] != 0.0f)  // nothing wrote the output of no expert
            add(outputs + (row * top_k + k) * columns + at, weights[row * top_k + k]);
    if (shared)
        add(shared + index, gates ? 1.0f / (1.0f + expf(-gates[row])) : 1.0f);
    if (residual)
        add(residual + index, 1.0f);
    Access::store(out + index, sums);
}
