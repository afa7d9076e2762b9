// out = activate(x) + residual, number by number.
//
// Options: NUMBER (bf16, fp16, float: of everything), ACTIVATE (0 none, 1 silu, 2 gelu, 3 gelu_tanh, 4 relu),
//   VECTOR (8, for float 4: count and addresses are multiples of it; else 1).
// Launch: grid ceil(count / VECTOR / block), any block.
// Arguments: x, residual (null: none), out (may be x or residual), count.
#include "vectorization.cuh"

typedef Row<NUMBER, VECTOR> Numbers;

DEVICE float activated(float v) {
    if (ACTIVATE == 1)
        return v / (1.0f + expf(-v));
    if (ACTIVATE == 2)
        return 0.5f * v * (1.0f + erff(v * 0.70710678118654752440f));
    if (ACTIVATE == 3)
        return 0.5f * v * (1.0f + tanhf(0.79788456080286535588f * (v + 0.044715f * v * v * v)));
    if (ACTIVATE == 4)
        return v < 0.0f ? 0.0f : v;  // so that what is not a number stays so
    return v;
}

KERNEL activate(const NUMBER* x, const NUMBER* residual, NUMBER* out, int count) {
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 at = (i64(blockIdx.x) * blockDim.x + threadIdx.x) * VECTOR;
    if (at >= count)
        return;
    float v[VECTOR], added[VECTOR];
    Numbers::load(x + at, v);
    if (residual)
        Numbers::load(residual + at, added);
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        v[i] = activated(v[i]) + (residual ? added[i] : 0.0f);
    Numbers::store(out + at, v);
}
