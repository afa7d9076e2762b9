// Elements along an axis by their numbers: out[o][j][i] = x[o][indices[j]][i].
//
// Options: UNIT (bytes of an element, or of several of the inner axis where they are aligned: 1, 2, 4, 8, 16), EACH (1:
//   there are indices for every o and i: indices[o][j][i]).
// Launch: grid ceil(total / block), any block.
// Arguments: x, indices (int64), out, axis (length of the axis that is indexed), count, inner (in units), total (outer *
//   count * inner; 64 bits each). A negative index counts from the end; one that is out of bounds gives zeros.
#include "prelude.cuh"

typedef Unit<UNIT>::Type Piece;

KERNEL gather(const Piece* x, const i64* indices, Piece* out, i64 axis, i64 count, i64 inner, i64 total) {
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 at = i64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= total)
        return;
    const i64 row = at / inner, i = at - row * inner, o = row / count, j = row - o * count;
    i64 index = indices[EACH ? at : j];
    index += index < 0 ? axis : 0;
    out[at] = index >= 0 && index < axis ? x[(o * axis + index) * inner + i] : Piece();
}
