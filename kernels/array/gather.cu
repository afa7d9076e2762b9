// Gathers elements along an axis by index: out[o][j][i] = x[o][indices[j]][i].
//
// Algorithm: a plain gather; none published. Tiling: one access a thread.
//
// Options: ACCESS_BYTES (bytes of an element, or of several of the inner axis where they are aligned: 1, 2, 4, 8, 16),
//   ALONG_AXIS (1: there are indices for every o and i, as take_along_axis: indices[o][j][i]).
// Launch: grid ceil(total / CTA), CTA of any size.
// Arguments: x, indices (int64), out, axis (length of the indexed axis), count, inner (in accesses), total (outer *
//   count * inner; 64 bits each). A negative index counts from the end; one that is out of bounds gives zeros.
#include "prelude.cuh"

typedef AccessType<ACCESS_BYTES>::Type Access;

KERNEL gather(const Access* x, const i64* indices, Access* out, i64 axis, i64 count, i64 inner, i64 total) {
    launch_dependents();
    wait_on_dependency();
    const i64 at = i64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= total)
        return;
    const i64 row = at / inner, i = at - row * inner, o = row / count, j = row - o * count;
    i64 index = indices[ALONG_AXIS ? at : j];
    index += index < 0 ? axis : 0;
    out[at] = index >= 0 && index < axis ? x[(o * axis + index) * inner + i] : Access();
}
