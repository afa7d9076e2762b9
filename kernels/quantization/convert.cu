// Plain numbers to another type.
//
// Options: TYPE, OUTPUT (float, bf16, fp16).
// Launch: grid ceil(count / block), any block.
// Arguments: x, out, count.
#include "prelude.cuh"

KERNEL convert(const TYPE* x, OUTPUT* out, int count) {
    start_next_kernel();
    wait_for_previous_kernel();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = from_float<OUTPUT>(to_float(x[i]));
}
