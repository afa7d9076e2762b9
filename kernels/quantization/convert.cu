// Converts floats from one type to another.
//
// Algorithm: rounds to nearest even through float. Tiling: one element a thread.
//
// Options: TYPE, OUTPUT (float, bf16, fp16).
// Launch: grid ceil(count / CTA), CTA of any size.
// Arguments: x, out, count.
#include "prelude.cuh"

KERNEL convert(const TYPE* x, OUTPUT* out, int count) {
    launch_dependents();
    wait_on_dependency();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = from_float<OUTPUT>(to_float(x[i]));
}
